"""Report of one run, as README.md shows it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.benchmarks.machine import describe, load_average
from tests.benchmarks.measure import Run
from tests.benchmarks.rows import HEADER, Row

_OPENING = """# Benchmarks

`make bench` writes this file; `make bench-peers` measures Redis in the same run and, with
`JAVA_TRACKER_BENCH=DIR`, Pulsar's own trackers (a harness with `build.sh` and `run1.sh`). `python -m tests.benchmarks
--help` lists how to run parts of it. A whole run takes an hour.

Seeds are fixed. After a warm-up there are {repeats} repeats, unless a row says otherwise; the median is shown with the
lowest and the highest. CPU is the processor time of all threads and processes that took part, for each index; peak
memory is what the process held above its start, at most. The output of each repeat is compared with a model, and a
wrong one ends the run without a report. A peer's number is of this run, or as stated in `goals.py`. A ratio above 1 is
better than the peer.

- Machine: {machine}
- Load average before: {load_before}; after: {load_after} (the benchmarks' own load counts)
- Goals met: {met_count} of {goal_count}
"""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one benchmark."""

    title: str
    about: str
    rows: tuple[Row, ...]


def report(parts: Sequence[Part], run: Run, *, load_before: str, is_quick: bool) -> str:
    """Return the report: all measurements, beside peers and goals."""
    met = [row.is_met(run.peers) for part in parts for row in part.rows]
    sections = [
        _OPENING.format(
            repeats=run.scale.repeats,
            machine=describe(),
            load_before=load_before,
            load_after=load_average(),
            met_count=met.count(True),
            goal_count=met.count(True) + met.count(False),
        )
    ]
    if is_quick:
        sections.append("This was a quick run: its numbers mean nothing.\n")
    if run.skipped:
        sections.append("Left out:\n\n" + "".join(f"- {text}\n" for text in run.skipped))
    if run.peers:
        peers = "".join(f"- {key}: {peer.value:,.4g} ({peer.name})\n" for key, peer in run.peers.items())
        sections.append(f"Peers measured in this run, in the unit of the row they stand beside:\n\n{peers}")
    for part in parts:
        lines = "\n".join(row.markdown(run.peers) for row in part.rows)
        sections.append(f"## {part.title}\n\n{part.about}\n\n{HEADER}\n{lines}\n")
    return "\n".join(sections)
