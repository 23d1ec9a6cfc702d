"""Bucket snapshots as bytes (PIP-195), equal to Pulsar's.

Takes sorted rows and bitmaps, returns entries, and the reverse. Open ``codec.py`` first.
"""
