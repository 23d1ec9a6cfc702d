"""Ledgers in a local directory: one writer for each topic, and any number of readers at any time.

Takes entries and metadata to write or import, gives topics that read as those of a bookie.
Open ``writer.py`` first, then ``source.py``.
"""
