"""Rebuilds the index of delayed messages from the ledgers themselves, with Spark.

Takes URLs of ledgers, gives snapshots in a storage or a service, a comparison with an index, or a table of entries.
Open ``jobs/rebuild.py`` first.
"""

from delayed_tracker.spark.runtime.python_worker import is_worker, keep_freed_memory, suppress_disconnect_traceback

# Every process that Spark starts imports this package before it runs other code of it.
suppress_disconnect_traceback()
if is_worker():
    keep_freed_memory()
