"""Performs the effects of trackers against the snapshot storage: store, load, merge, delete, recover.

Takes effects and reports each result exactly once.
Open ``runner.py`` first.
"""
