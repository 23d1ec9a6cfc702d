"""Places of entries: the bookies of a cluster and the connections to them, which have an entry, how many must answer.

Takes the sizes of a ledger's quorums, entry ids and ids of bookies, returns sets of bookies and connections.
Open ``quorums.py`` first, then ``bookies.py``.
"""
