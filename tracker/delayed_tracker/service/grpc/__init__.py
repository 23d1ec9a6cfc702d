"""The gRPC edge: methods, conversions, statuses.

Takes bytes of requests, asks trackers and queries, gives bytes of answers; errors become statuses.
Open ``methods.py`` first, then ``servicer.py``.
"""
