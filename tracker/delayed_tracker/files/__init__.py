"""Files of this machine: bounded reading, lock files, refused paths.

Takes paths, gives content, locks and errors. Knows nothing of trackers and ledgers.
Open ``lock_file.py`` first.
"""
