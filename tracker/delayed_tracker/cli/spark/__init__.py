"""Command line ``spark-rebuild`` of the Spark job.

Takes URLs of ledgers and options of Spark, runs one job, and prints its result as a table or JSON.
Open ``main.py`` first, then ``rebuild.py``.
"""
