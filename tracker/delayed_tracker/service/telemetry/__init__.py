"""Log lines and traces of the process.

Takes events of every room above, gives lines on stderr and spans.
Open ``logs.py`` first.
"""
