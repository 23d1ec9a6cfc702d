"""Work on whole storages: take over, verify, repair, measure and copy trackers.

Takes any storage, and the add log beside it if there is one; uses nothing but their protocols.
Open ``copying.py`` first, then ``checking.py``.
"""
