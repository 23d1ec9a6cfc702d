"""Holds the tracked positions: a bit for each, and the rows that are in memory.

Takes positions and rows in any order, returns membership and rows in delivery order. Open ``membership.py`` first.
"""
