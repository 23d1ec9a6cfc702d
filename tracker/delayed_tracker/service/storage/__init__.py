"""Performs the effects of trackers against the snapshot storage: store, load, merge, delete, recover.

Takes effects, gives each result exactly once.
Open ``runner.py`` first.
"""
