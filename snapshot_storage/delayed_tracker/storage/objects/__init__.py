"""Snapshots and catalogues as objects: files in a directory that several processes share, and stores of objects.

Takes a few operations on objects, gives a storage. Open ``storage.py`` first, then ``snapshot_object.py``.
"""
