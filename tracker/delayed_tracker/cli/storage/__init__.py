"""Commands of ``delayed-tracker`` about the files of a SQLite storage: copy, put back, make small.

Open ``backup.py`` first.
"""
