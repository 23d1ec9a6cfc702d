"""A topic as a sequence of ledgers, wherever these are kept.

Takes a source, gives entries page by page and one by one.
Open ``topic_log.py`` first.
"""
