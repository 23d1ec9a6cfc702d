"""A topic as a sequence of ledgers, independent of where they are stored.

Takes a source and returns entries, page by page or one by one.
Open ``topic_log.py`` first.
"""
