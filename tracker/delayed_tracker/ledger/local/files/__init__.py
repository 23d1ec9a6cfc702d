"""Files of local ledgers: names, bytes, locks.

Takes records and metadata, gives durable files.
Open ``layout.py`` first, then ``records.py``.
"""
