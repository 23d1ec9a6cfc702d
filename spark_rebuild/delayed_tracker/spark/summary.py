"""Result of a rebuild in numbers: they account for every entry that was read."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from delayed_tracker.core.values.columns import Position


@dataclass(frozen=True, slots=True)
class TrackerSummary:
    """Counts of one subscription: every delayed message of its topic is in exactly one of them.

    delayed = acknowledged + aborted + open_transaction + due + beyond_max_delay + duplicate + written + tail.
    """

    topic: str
    subscription: str
    mark_delete: Position
    delayed: int
    acknowledged: int
    aborted: int
    open_transaction: int
    due: int
    beyond_max_delay: int
    duplicate: int
    written: int
    """Indexes in buckets; in a dry run, those that would be written."""
    tail: int
    """Indexes after the last bucket, too few to seal another."""
    buckets: int
    merges: int
    snapshot_bytes: int
    replay_from: Position | None
    """First position that the dispatcher has to offer again because no bucket contains it; None if there is none. Never
    after an entry that could not be read and is not acknowledged.
    """
    unread: int = 0
    """Entries that could not be read and are not acknowledged."""
    replaced: int = 0
    """Buckets that existed before the commit and were replaced."""
    epoch: int | None = None
    """Epoch under which the buckets were committed; None if they were not."""
    unchanged: bool = False
    """True if exactly the same buckets were stored already."""


LISTED_MAX: Final = 10_000
"""Largest number of rows of bad entries that a summary lists; all are counted."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """An entry, or a run of entries, that could not be read."""

    topic: str | None
    ledger_id: int | None
    entry_id: int | None
    entry_count: int
    error: str


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of a whole job."""

    read: int
    """Entries of all topics' ledgers, without bad ones."""
    delayed: int
    """Delayed messages among the entries; each counts once, however many subscriptions get it."""
    now_ms: int
    """Time at which messages counted as due: that of the first run, if this one has resumed it."""
    trackers: tuple[TrackerSummary, ...]
    bad_entries: tuple[BadRow, ...]
    """The first ``LISTED_MAX``."""
    bad_count: int
    """Entries that could not be read, in all."""
    parts_made: int
    parts_reused: int
    """Parts that an earlier run staged."""
    seconds: dict[str, float]
    """Seconds of each stage, in order."""

    def document(self) -> dict[str, Any]:
        """Return the summary as a document for JSON; positions are LEDGER:ENTRY."""
        whole = asdict(self)
        for tracker, shown in zip(self.trackers, whole["trackers"], strict=True):
            shown["mark_delete"] = str(tracker.mark_delete)
            shown["replay_from"] = None if tracker.replay_from is None else str(tracker.replay_from)
        for name in (
            "acknowledged",
            "aborted",
            "open_transaction",
            "due",
            "beyond_max_delay",
            "duplicate",
            "written",
            "tail",
            "snapshot_bytes",
        ):
            whole[name] = sum(getattr(tracker, name) for tracker in self.trackers)
        return whole
