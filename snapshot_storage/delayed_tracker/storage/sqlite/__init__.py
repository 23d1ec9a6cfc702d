"""The embedded backend: one SQLite file.

Takes operations of the protocol, runs statements in threads. Open ``storage.py`` first.
"""
