"""Queries about topics: message by index (PIP-415) or by time, pending messages, checksums.

Takes a topic and returns positions and counts.
Open ``topic_queries.py`` first.
"""
