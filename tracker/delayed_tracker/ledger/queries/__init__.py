"""Questions about topics: message by index (PIP-415), by time, pending messages, checksums.

Takes a topic, gives positions and counts.
Open ``topic_queries.py`` first.
"""
