"""Metadata of topics, ledgers and cursors, from ZooKeeper or a dump of it.

Takes the bytes of metadata nodes and returns frozen values.
Open ``managed_ledger.py`` first.
"""
