"""Metadata of ledgers in ZooKeeper: its bytes, its places in the tree, and the store that creates and replaces it.

Takes ledger ids and returns frozen values with the version of their node.
Open ``ledger_store.py`` first.
"""
