"""Command ``delayed-tracker top``: shows the busiest trackers of a service, live.

Takes samples of a service's counters, gives rows with rates and draws them.
Open ``command.py`` first, then ``rows.py``.
"""
