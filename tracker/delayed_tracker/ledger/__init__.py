"""Reads ledgers that Pulsar wrote: entries, entry logs, managed-ledger and cursor metadata, and pending messages.

Takes URLs of bookies' disks, tiered storage or local directories, gives topics with entries, messages and answers.
Open ``source_url.py`` first, then ``source.py``.
"""
