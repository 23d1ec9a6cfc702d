"""Log lines and traces of the process.

Takes events from all rooms above, gives lines on stderr and spans.
Open ``logs.py`` first.
"""
