"""Frame and metadata of one entry, and columns of many entries.

Takes payload bytes and returns columns and broker metadata (PIP-70, PIP-90).
Open ``frame.py`` first.
"""
