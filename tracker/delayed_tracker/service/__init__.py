"""The async shell around the core: trackers by name, effects against the storage, and the gRPC edge.

Takes calls over gRPC and HTTP, gives answers, metrics and logs; the core decides, the storage remembers.
Open ``server.py`` first, then ``trackers/host.py``.
"""
