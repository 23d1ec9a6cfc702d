"""The gRPC interface: methods, conversions, statuses.

Decodes requests, calls trackers and queries, and encodes the answers. Errors become statuses.
Open ``methods.py`` first, then ``servicer.py``.
"""
