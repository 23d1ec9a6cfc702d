"""Bucket snapshots as bytes (PIP-195), equal to Pulsar's.

Takes sorted rows and bitmaps, gives entries, and the other way round.
Open ``codec.py`` first.
"""
