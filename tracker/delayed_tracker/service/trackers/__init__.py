"""Open trackers: who owns them, their verbs, polls that wait, timers, imports.

Takes calls with an epoch, asks the core, hands its effects to ``storage``.
Open ``registry.py`` first, then ``host.py``.
"""
