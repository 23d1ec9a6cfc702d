"""Script for spark-submit, in a directory of its own, because Spark puts that first on the import path.

Takes the arguments of ``spark-rebuild``.
Open ``job.py`` first.
"""
