"""Packed columns of protobuf messages, shared by the client and the service.

Takes sequences of integers, gives packed fields, and converts them back. Needs no columns library.
Open ``columns.py`` first.
"""
