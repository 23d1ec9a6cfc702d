"""Run the benchmarks and write the results into README.md beside this file.

    python -m tests.benchmarks [--only add,pop] [--peers] [--java-bench DIR] [--quick] [--spark-entries N]
                               [--output FILE]

Only a full run writes README.md; the report of a partial or quick run is printed. ``--output`` writes any run to a
file. Until the run has ended, the report so far is in a file beside it, whose name ends in ``.part``.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from delayed_tracker.service.process.garbage_collection import collect_everything_seldom
from delayed_tracker.service.process.kernels import load_kernels
from delayed_tracker.service.telemetry.logs import configure_logging
from tests.benchmarks.catalogue import BENCHMARKS, Benchmark
from tests.benchmarks.inputs.scale import QUICK, Scale
from tests.benchmarks.machine import load_average
from tests.benchmarks.measure import Run, WrongOutput
from tests.benchmarks.peers.java_peer import measure_java
from tests.benchmarks.report import Part, report
from tests.benchmarks.rows import Row

README = Path(__file__).parent / "README.md"


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if all benchmarks ran with correct output; 1 if some output was wrong, and then write no report."""
    parser = _options()
    options = parser.parse_args(arguments)
    if options.peers and shutil.which("redis-server") is None:  # told now, and not in a report after an hour
        parser.error(
            "--peers measures Redis, and there is no redis-server on the PATH (Debian: apt-get install redis-server)"
        )
    chosen: list[Benchmark] = options.only or BENCHMARKS
    with (
        tempfile.TemporaryDirectory(prefix="tracker-benchmarks-") as directory,
        Path(os.devnull).open("w", encoding="utf-8") as quiet,
    ):
        scale = QUICK if options.quick else Scale()
        if options.spark_entries is not None:
            scale = replace(scale, spark_ledgers=-(-options.spark_entries // scale.spark_ledger_entries))
        run = Run(
            scale=scale,
            directory=Path(directory),
            with_peers=options.peers,
            java_bench=options.java_bench,
        )
        configure_logging("json", "info", stream=quiet)  # trackers log as in a service, into nothing
        collect_everything_seldom()  # as a service does
        load_kernels()  # else the first row would include compiling, or waiting for compiled code
        load_before = load_average()
        if run.with_peers:
            measure_java(run, {benchmark.name for benchmark in chosen})
        is_whole = chosen == BENCHMARKS and scale == Scale()
        output: Path | None = options.output or (README if is_whole else None)
        so_far = None if output is None else output.with_name(f"{output.name}.part")

        def reported(parts: Sequence[Part]) -> str:
            return report(parts, run, load_before=load_before, is_quick=options.quick)

        try:
            text = reported(all_measured(chosen, run, so_far, reported))
        except WrongOutput as error:
            print(error, file=sys.stderr)
            return 1
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")
        run.note(f"written to {output}")
    return 0


def all_measured(
    chosen: Sequence[Benchmark], run: Run, so_far: Path | None, reported: Callable[[Sequence[Part]], str]
) -> list[Part]:
    """Return the rows of all benchmarks.

    Until the last has ended, the report so far is in a file, which stays if a benchmark fails: a run takes an hour.
    """
    parts: list[Part] = []
    if so_far is not None:
        so_far.unlink(missing_ok=True)
    for benchmark in chosen:
        parts.append(measured(benchmark, run))
        if so_far is not None:
            count = f"Unfinished: {len(parts)} of {len(chosen)} benchmarks.\n\n"
            so_far.write_text(count + reported(parts), encoding="utf-8")
    if so_far is not None:
        so_far.unlink()
    return parts


def measured(benchmark: Benchmark, run: Run) -> Part:
    """Return the rows of one benchmark, and print each as it comes."""

    def told(row: Row) -> Row:
        run.note(str(row))
        return row

    async def collected(found: AsyncIterator[Row]) -> list[Row]:
        async with aclosing(found):
            return [told(row) async for row in found]

    found = benchmark.rows(run)
    rows = map(told, found) if isinstance(found, Iterator) else asyncio.run(collected(found))
    return Part(benchmark.title, benchmark.about, tuple(rows))


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Measure the tracker.")
    parser.add_argument("--only", type=_chosen, metavar="NAMES", help=f"some of {_names()}, separated by commas")
    parser.add_argument(
        "--peers", action="store_true", help="measure Redis, and Pulsar's own trackers, in the same run"
    )
    parser.add_argument("--java-bench", type=_directory, metavar="DIR", help="the harness around Pulsar's own trackers")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: to see that everything runs, not for numbers")
    parser.add_argument(
        "--spark-entries", type=_count, metavar="N", help="how many entries Spark reads, at least; whole ledgers"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the report there")
    return parser


def _names() -> str:
    return ", ".join(benchmark.name for benchmark in BENCHMARKS)


def _chosen(names: str) -> list[Benchmark]:
    known = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    unknown = [name for name in names.split(",") if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no benchmark {unknown[0]!r}; there are {_names()}")
    return [benchmark for name, benchmark in known.items() if name in names.split(",")]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of entries, 1 or more")
    return int(text)


def _directory(path: str) -> Path | None:
    if not path:
        return None
    if not Path(path).is_dir():
        raise argparse.ArgumentTypeError(f"{path} is no directory")
    return Path(path)


if __name__ == "__main__":
    sys.exit(main())
