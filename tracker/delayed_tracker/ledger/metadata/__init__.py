"""Metadata of topics, ledgers and cursors, from ZooKeeper or a dump of it.

Takes bytes of nodes, gives frozen values.
Open ``managed_ledger.py`` first.
"""
