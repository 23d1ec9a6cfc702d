"""Open trackers: owners, verbs, waiting polls, timers.

Takes calls with an epoch, calls the core, passes the core's effects to ``storage``.
Open ``registry.py`` first, then ``host.py``.
"""
