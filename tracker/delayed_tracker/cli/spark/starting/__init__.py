"""Starts Java early for a command line, and prepares later starts.

Open ``early_java.py`` first.
"""
