"""Finds the Java that Spark runs on.

Open ``java.py`` first.
"""
