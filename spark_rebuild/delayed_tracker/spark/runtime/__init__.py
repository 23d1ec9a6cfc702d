"""Starts the Java that Spark runs on and the Python workers, and counts the tasks that it can run.

Open ``java_start.py`` first.
"""
