"""Complete jobs: rebuild, verify, statistics, the table of message indexes; and what the driver does for them.

Takes a Spark session and settings, runs steps, gives a summary.
Open ``rebuild.py`` first.
"""
