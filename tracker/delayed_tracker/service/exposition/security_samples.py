"""Writes the samples of refused callers, and of what security depends on."""

from collections.abc import Iterable, Iterator

from delayed_tracker.service.exposition.tracker_samples import sample
from delayed_tracker.service.instruments import security_families as families
from delayed_tracker.service.instruments.family import Family, label
from delayed_tracker.service.instruments.security_counts import SecurityCounts


def security_lines(counts: SecurityCounts) -> Iterator[tuple[Family, Iterable[bytes]]]:
    """Yield the families of security with their samples."""
    for family, name, values in (
        (families.REFUSED, "reason", counts.refused),
        (families.OVER_QUOTA, "limit", counts.over_quota),
        (families.STALE, "kind", counts.is_stale),
    ):
        yield family, [sample(family.name, label(name, key), int(value)).encode() for key, value in values.items()]
    reloads, ends = families.RELOADS, families.CERTIFICATE_ENDS
    yield (
        reloads,
        [
            sample(reloads.name, f"{label('kind', kind)},{label('outcome', outcome)}", count).encode()
            for (kind, outcome), count in counts.reloads.items()
        ],
    )
    end_s = counts.certificate_ends_s
    yield ends, [] if end_s is None else [sample(ends.name, "", end_s).encode()]
