"""The add log over BookKeeper: one ledger an instance, rolled over, and fenced by whoever takes a tracker over.

Takes records of trackers, gives them back to the next owner. Open ``add_log.py`` first, then ``owners.py``.
"""
