"""Snapshots and catalogues in BookKeeper and ZooKeeper, as PIP-195 says: snapshots are ledgers as Pulsar writes them.

Takes a client of BookKeeper, gives a storage and an add log. Open ``storage.py`` first, then ``ledgers.py``.
"""
