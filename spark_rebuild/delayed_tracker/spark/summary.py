"""What a rebuild did, as numbers: the account of every entry that was read."""

from dataclasses import asdict, dataclass
from typing import Any

from delayed_tracker.core.values.columns import Position


@dataclass(frozen=True, slots=True)
class TrackerSummary:
    """One subscription: every delayed message of its topic is in one of the counts.

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
    """Indexes in buckets; with nothing to be written, those that would be."""
    tail: int
    """Too few behind the last bucket to seal another."""
    buckets: int
    merges: int
    snapshot_bytes: int
    replay_from: Position | None
    """The first position that the dispatcher has to offer again, as no bucket holds it; None if there is none. Never behind
    an entry that could not be read, and that is not acknowledged."""
    unread: int = 0
    """Entries that could not be read, and are not acknowledged."""
    replaced: int = 0
    """Buckets that were there before the commit, and are gone."""
    epoch: int | None = None
    """Under which the buckets were committed; None if they were not."""
    unchanged: bool = False
    """The very same buckets were there already."""


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
    """A whole job."""

    read: int
    """Entries of all topics' ledgers, but for bad ones."""
    delayed: int
    """Of these, delayed messages; each counts once here, however many subscriptions get it."""
    trackers: tuple[TrackerSummary, ...]
    bad_entries: tuple[BadRow, ...]
    parts_made: int
    parts_reused: int
    """Staged by an earlier run."""
    seconds: dict[str, float]
    """How long each stage took, in order."""

    def document(self) -> dict[str, Any]:
        """The same, ready to become JSON; positions as LEDGER:ENTRY."""
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
