"""Values that all other rooms exchange: columns, positions, limits, results of verbs, errors.

This room does not use the tracker. Open ``columns.py`` first: columns are the form in which many indexes are passed.
"""
