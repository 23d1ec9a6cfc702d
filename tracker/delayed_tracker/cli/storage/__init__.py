"""Commands of ``delayed-tracker`` about storages: the files of a SQLite storage, and whole storages of any kind.

Open ``backup.py`` first, then ``commands.py``.
"""
