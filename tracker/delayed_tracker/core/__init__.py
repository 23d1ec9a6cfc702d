"""The tracker of one subscription: synchronous, deterministic, columnar.

Verbs and results of effects come in with the time as an argument; answers and effects go out as values.
Open ``core.py`` first: it has every verb.
"""
