"""Recovers a ledger whose writer is gone, or is to be fenced: finds its last entry, and closes it there.

Takes the metadata of a ledger, gives those of the closed one. Open ``recovering.py`` first.
"""
