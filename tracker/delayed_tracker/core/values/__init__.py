"""Values that all other rooms exchange: columns, positions, limits, results of verbs, errors.

Nothing here knows a tracker.
Open ``columns.py`` first: many indexes travel in no other form.
"""
