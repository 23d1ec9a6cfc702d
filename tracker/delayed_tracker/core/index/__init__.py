"""Holds what is tracked: a bit for each position, and the rows that are in memory.

Takes positions and rows in any order, gives membership and rows in delivery order.
Open ``membership.py`` first.
"""
