"""Files of local ledgers: names, formats, locks.

Takes records and metadata and makes durable files.
Read ``layout.py`` first, then ``records.py``.
"""
