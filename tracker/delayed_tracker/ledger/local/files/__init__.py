"""Files of local ledgers: names and formats.

Takes records and metadata and makes durable files.
Open ``layout.py`` first, then ``records.py``.
"""
