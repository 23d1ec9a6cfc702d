"""Columns of protobuf messages as bytes, shared by the client and the service.

Takes sequences of integers, gives packed fields, and the other way round; needs no columns library.
Open ``columns.py`` first.
"""
