"""Reads a ledger: entries from any of their bookies, and how far the ledger is confirmed and stored.

Takes entry ids, gives verified entries. Open ``reader.py`` first, then ``replica_search.py``.
"""
