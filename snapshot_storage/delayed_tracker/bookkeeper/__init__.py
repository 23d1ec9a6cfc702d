"""Speaks to BookKeeper: creates, writes, reads, recovers and deletes ledgers.

Takes requests about ledgers and entries, gives the bookies' answers. Knows nothing of trackers and needs no numpy.
Open ``client.py`` first.
"""
