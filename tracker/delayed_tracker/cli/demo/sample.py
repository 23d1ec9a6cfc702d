"""The demo's input: a part of a real Pulsar's data, and a manifest with its expected content.

The sample is one bookie's entry log and metadata dump, cut to three topics. The log contains the records of their
ledgers and of the bucket-snapshot ledgers of one subscription each, byte for byte and in the order of the log, under a
log header without a ledgers map (the last log of a killed bookie has none). The dump contains the metadata nodes of the
topics, of those subscriptions and of those ledgers, as dumped. The manifest has the files' SHA-256, the time of the
capture, and for each subscription the counts from an independent reading of the whole capture. ``sample/README.md``
describes how to cut another one.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from delayed_tracker.cli.tracker.offering import parse_instant
from delayed_tracker.core.values.errors import DelayedTrackerError

BUNDLED_SAMPLE = Path(__file__).parent.parent / "sample"
_REMEDY = "give --sample a directory with a manifest and its files, or, without --sample, install the package again"


class SampleDamaged(DelayedTrackerError):
    """The sample differs from its manifest; install the package again, or cut the sample again."""

    reason = "SAMPLE_DAMAGED"


@dataclass(frozen=True, slots=True)
class SampleSubscription:
    """One subscription of the sample, with its expected counts."""

    topic: str
    subscription: str
    ledgers: tuple[int, ...]
    entries: int
    delayed: int
    due_at_capture: int
    """Delayed messages that were due when Pulsar was stopped."""
    pending: int
    """Delayed messages that the subscription had not acknowledged, due ones included."""
    buckets: tuple[int, ...]
    """Ledger ids of the snapshots that Pulsar stored for it."""
    bucket_indexes: int
    bucket_segments: int


@dataclass(frozen=True, slots=True)
class Sample:
    """A verified sample."""

    directory: Path
    source: str
    captured_at: str
    captured_at_ms: int
    subscriptions: tuple[SampleSubscription, ...]

    @property
    def log_directory(self) -> Path:
        """The bookie's directory of entry logs."""
        return self.directory / "bookie"

    @property
    def metadata(self) -> Path:
        """The metadata dump."""
        return self.directory / "metadata.jsonl"


def open_sample(directory: Path) -> Sample:
    """Read the manifest and verify every file against it.

    Raises:
        SampleDamaged: a file is missing, or its bytes differ from the manifest.
    """
    try:
        manifest = json.loads((directory / "manifest.json").read_text("utf-8"))
        for name, expected in manifest["files"].items():
            found = hashlib.sha256((directory / name).read_bytes()).hexdigest()
            if found != expected:
                raise SampleDamaged(
                    f"{directory / name} is not the file that the manifest describes: its SHA-256 is {found}, "
                    f"not {expected}; {_REMEDY}"
                )
        return Sample(
            directory=directory,
            source=manifest["source"],
            captured_at=manifest["captured_at"],
            captured_at_ms=parse_instant("captured_at", manifest["captured_at"]),
            subscriptions=tuple(
                SampleSubscription(**{**row, "ledgers": tuple(row["ledgers"]), "buckets": tuple(row["buckets"])})
                for row in manifest["subscriptions"]
            ),
        )
    except OSError as error:
        raise SampleDamaged(f"{error.filename} cannot be read ({error.strerror}); {_REMEDY}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SampleDamaged(f"{directory / 'manifest.json'} is not a manifest ({error}); {_REMEDY}") from error
