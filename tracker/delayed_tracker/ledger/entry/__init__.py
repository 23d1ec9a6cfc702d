"""One entry: its frame, its metadata, and the columns of many.

Takes payload bytes, gives columns and broker metadata (PIP-70, PIP-90).
Open ``frame.py`` first.
"""
