"""Changes the state of a tracker: buckets, leases, loads, merges.

Decisions come from ``rules``, rows from ``index``; effects leave through ``effects``.
Open ``state.py`` first: it holds all that the others change.
"""
