"""Staged parts become snapshots in a storage.

Takes staged parts, gives committed buckets.
Open ``commit.py`` first.
"""
