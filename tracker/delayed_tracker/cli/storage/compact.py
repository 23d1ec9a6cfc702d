"""Command ``delayed-tracker compact``: returns the unused space of a SQLite storage that is not in use."""

from delayed_tracker.cli.storage.storage_file import Storage, chosen_file
from delayed_tracker.cli.terminal.options import AsJson, Config
from delayed_tracker.cli.terminal.output import print_json, say, size
from delayed_tracker.storage.sqlite.compact import compact_storage


def compact(*, storage: Storage = None, config: Config = None, as_json: AsJson = False) -> None:
    """Write the files of a storage anew without unused space; the service must be stopped.

    A running service returns space in steps; this returns all of it, and needs as much free space as the larger file takes.

    Example: delayed-tracker compact --storage sqlite:data/tracker.db
    """
    compacted = compact_storage(chosen_file(storage, config))
    if as_json:
        print_json({"files": compacted})
        return
    for file in compacted:
        say(f"{file.path}: {size(file.bytes_before)} before, {size(file.bytes_after)} after")
