"""Builds a bookie's disk with one topic on it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from delayed_tracker.ledger.source import BookieDisk, open_bookie_disk
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb
from tests.ledger.harness.log_files import (
    TOPIC,
    cursor_path,
    entry_log,
    ledger_path,
    ledger_records,
    ledger_value,
    topic_path,
    topic_value,
    write_dump,
)


class DiskFiles:
    """Files of a disk. Tests change them to make them wrong, and then call :meth:`open`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.records: list[bytes] = []
        self.metadata: dict[str, bytes] = {topic_path(): b""}
        self._topic: dict[int, int | None] = {}

    def add_ledger(
        self, ledger_id: int, payloads: Sequence[bytes], *, closed: bool = True, of_topic: bool = True
    ) -> list[bytes]:
        """Add a ledger and return its records. An open ledger has no end in the metadata, like a topic's last one."""
        records = ledger_records(ledger_id, payloads)
        self.records += records
        self.metadata[ledger_path(ledger_id)] = ledger_value(last_entry_id=len(payloads) - 1 if closed else None)
        if of_topic:
            self._topic[ledger_id] = len(payloads) if closed else None
            self.metadata[topic_path()] = topic_value(self._topic)
        return records

    def add_cursor(self, info: pb.ManagedCursorInfo, subscription: str = "workers") -> None:
        self.metadata[cursor_path(subscription)] = info.SerializeToString()

    def open(self, *, log: bytes | None = None) -> BookieDisk:
        logs = self.directory / "ledgers"
        logs.mkdir(exist_ok=True)
        (logs / "0.log").write_bytes(entry_log(self.records) if log is None else log)
        return open_bookie_disk([logs], write_dump(self.directory / "dump.jsonl.gz", self.metadata))

    def pending(self, *, log: bytes | None = None, **options):
        with self.open(log=log) as disk:
            return disk.pending(TOPIC, "workers", **options)


def cursor_at(ledger_id: int, entry_id: int, **fields) -> pb.ManagedCursorInfo:
    return pb.ManagedCursorInfo(
        cursors_ledger_id=-1, mark_delete_ledger_id=ledger_id, mark_delete_entry_id=entry_id, **fields
    )


def properties(pairs: Mapping[str, str]) -> list[pb.StringProperty]:
    return [pb.StringProperty(name=name, value=value) for name, value in pairs.items()]
