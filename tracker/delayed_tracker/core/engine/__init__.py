"""Changes the state of a tracker: buckets, leases, loads, merges.

Decisions come from ``rules``, rows from ``index``; effects leave through ``effects``. Open ``state.py`` first: it holds
the state that the other modules change. The verbs of ``core.py`` call ``adding``, ``removing``, ``rescheduling``,
``handing_out``, ``returning`` and ``barriers``, and end with ``upkeep``.
"""
