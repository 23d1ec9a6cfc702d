"""Finds the Java that Spark runs on, and counts the tasks that it can run.

Open ``java.py`` first.
"""
