"""Storage of bucket snapshots: the protocol, the codec above it, the backends, and the contract suite for new ones.

Takes the bytes of snapshots and catalogue entries, and gives them back after a restart, verified.
Open ``protocol.py`` first, then ``publication.py``.
"""
