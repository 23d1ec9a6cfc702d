"""Bounds the resources of calls: bytes received, bytes answered, calls in flight.

A call waits until there is room, or is refused with ``Overloaded``.
Open ``call_admission.py`` first.
"""
