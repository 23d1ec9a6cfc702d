"""Complete jobs: rebuild, verify, statistics, the table of message indexes.

Takes a Spark session and settings, gives a summary.
Open ``rebuild.py`` first.
"""
