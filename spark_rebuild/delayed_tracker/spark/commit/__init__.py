"""Stores staged parts as snapshots in a storage.

Takes staged parts, gives committed buckets.
Open ``commit.py`` first.
"""
