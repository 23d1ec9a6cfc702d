"""Entry logs of BookKeeper: files, records and ledgers.

Reads the directories of bookies and returns the entries of ledgers, with verified digests.
Open ``entry_log.py`` first.
"""
