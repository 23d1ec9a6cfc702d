"""Data source ``delayed_snapshots``: all that trackers have pending in the snapshots of a storage, as rows.

Takes options of a query, gives Arrow batches.
Open ``delayed_snapshots.py`` first.
"""
