"""Writes a ledger: adds entries, replaces bookies that fail, closes.

Takes payloads, returns the ids of their entries. Open ``writer.py`` first, then ``entry_adds.py``.
"""
