"""Entry logs of BookKeeper: files, records, ledgers.

Takes directories of bookies, gives entries of ledgers with their digests verified.
Open ``entry_log.py`` first.
"""
