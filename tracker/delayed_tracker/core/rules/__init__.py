"""Decides, without state: when to seal, where to cut, which buckets to merge, what to recover.

Takes columns and limits, gives plans as frozen values; the service and the Spark job share them.
Open ``placement.py`` first: it says where an add must stop to seal.
"""
