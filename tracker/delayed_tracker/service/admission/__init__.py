"""Bounds what calls hold at the same time: bytes received, bytes answered, calls in flight.

A call waits here until there is room, or is refused with ``Overloaded``.
Open ``calls.py`` first.
"""
