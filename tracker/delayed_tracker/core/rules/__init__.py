"""Decides, without state, when to seal, where to cut, which buckets to merge, and what to recover.

Takes columns and limits, returns plans as frozen values; the service and the Spark job share them.
Open ``placement.py`` first: it decides where an add must stop to seal.
"""
