"""Reads the state of a tracker and changes nothing.

Takes the state, returns stats, explanations, ranges of entries, and violations of invariants. Open ``inspection.py``
first.
"""
