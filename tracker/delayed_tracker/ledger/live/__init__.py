"""A running cluster as a source of ledgers: metadata from its ZooKeeper, entries from its bookies, nothing changed.

Takes a URL ``bookkeeper+zk:`` and gives a source of ledgers whose reads wait for one event loop in the background.
Open ``source.py`` first.
"""
