"""Command ``delayed-tracker demo``: plays its parts, prints the verdict, and sets the exit status."""

import asyncio
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer
from rich.console import Console

from delayed_tracker.cli.demo.buckets_part import SubscriptionBuckets, show_buckets
from delayed_tracker.cli.demo.checks import Checks, Claim
from delayed_tracker.cli.demo.delivery_part import DeliveryReport, show_delivery
from delayed_tracker.cli.demo.sample import BUNDLED_SAMPLE, Sample, open_sample
from delayed_tracker.cli.demo.spark_part import RebuiltSubscription, has_spark, show_rebuild
from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.service.warm import load_with_progress
from delayed_tracker.cli.terminal.options import AsJson, reject_tilde_path
from delayed_tracker.cli.terminal.output import answer_console, print_json
from delayed_tracker.core.values.errors import DelayedTrackerError

TIME_LIMIT_S = 600
"""Time limit in seconds, for a service that hangs. The demo takes about 90 on two idle cores, more on busy ones."""


class DemoTooSlow(DelayedTrackerError):
    """The machine is too slow for the demo, or the service hangs; some claims were not checked."""

    reason = "DEMO_TOO_SLOW"


class DemoStopped(DelayedTrackerError):
    """The demo was stopped by a signal; some claims were not checked, and its service has ended."""

    reason = "DEMO_STOPPED"


@dataclass(frozen=True, slots=True)
class DemoReport:
    """Results of the demo; the answer of ``--json``."""

    held: bool
    """True if every claim held."""
    seconds: float
    source: str
    captured_at: str
    buckets: Sequence[SubscriptionBuckets]
    rebuilt: Sequence[RebuiltSubscription]
    """Subscriptions rebuilt by Spark; empty if Spark is not installed, or if a claim of the first part did not hold."""
    delivery: DeliveryReport | None
    """Result of the delivery; None if a claim of an earlier part did not hold: then it is not played."""
    claims: Sequence[Claim]


def demo(
    sample: Annotated[
        Path,
        typer.Option(
            "--sample",
            help="Directory of another sample with its manifest.",
            metavar="DIR",
            show_default=False,
            callback=reject_tilde_path,
        ),
    ] = BUNDLED_SAMPLE,
    as_json: AsJson = False,
) -> None:
    """Show the tracker on messages that a real Pulsar wrote, and check every claim; takes under three minutes.

    It starts a service of its own on free ports with a temporary data directory, kills it with -9, and starts it again.
    Exit status 0 means that every claim was checked and held.

    Example: delayed-tracker demo
    """
    load_with_progress()
    console = Console(quiet=True) if as_json else answer_console(markup=True)
    report = asyncio.run(_play_in_time(open_sample(sample), console))
    if as_json:
        print_json(report)
    else:
        _print_verdict(console, report)
    if not report.held:
        raise typer.Exit(ExitCode.FAILURE)


async def _play_in_time(sample: Sample, console: Console) -> DemoReport:
    loop = asyncio.get_running_loop()
    playing = loop.create_task(_play(sample, console))
    stopped: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        stopped.append(number)
        playing.cancel()

    # Cancels like Ctrl-C; otherwise the service would outlive the demo.
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    try:
        async with asyncio.timeout(TIME_LIMIT_S):
            return await playing
    except asyncio.CancelledError as error:
        if not stopped:
            raise
        raise DemoStopped(f"the demo was stopped by {stopped[0].name}, so not all of it was checked") from error
    except TimeoutError as error:
        raise DemoTooSlow(f"the demo was not through after {TIME_LIMIT_S} s, so not all of it was checked") from error


async def _play(sample: Sample, console: Console) -> DemoReport:
    began_s = monotonic()
    checks = Checks(console)
    console.rule("1. The messages as they stood when Pulsar was stopped")
    console.print(f"Input: {sample.source}, captured {sample.captured_at}; every file has its expected SHA-256.\n")
    with tempfile.TemporaryDirectory(prefix="delayed-tracker-demo-") as directory:
        work_directory = Path(directory)
        storage_url = f"sqlite:{work_directory / 'tracker.db'}"
        buckets = await show_buckets(sample, work_directory, storage_url, console, checks)
        rebuilt: Sequence[RebuiltSubscription] = ()
        delivery = None
        if not checks.failed:
            console.rule("2. Rebuilt from the ledgers by Spark")
            if has_spark():
                rebuilt = await show_rebuild(
                    sample, work_directory, storage_url, buckets, console=console, checks=checks
                )
            else:
                console.print("Left out: Spark is not installed (pip install 'delayed-tracker[spark]').", markup=False)
        if not checks.failed:
            console.rule("3. Delivered on time, through a kill -9")
            delivery = await show_delivery(sample, work_directory, storage_url, console, checks)
    return DemoReport(
        held=not checks.failed,
        seconds=round(monotonic() - began_s, 1),
        source=sample.source,
        captured_at=sample.captured_at,
        buckets=buckets,
        rebuilt=rebuilt,
        delivery=delivery,
        claims=tuple(checks.claims),
    )


def _print_verdict(console: Console, report: DemoReport) -> None:
    console.rule()
    failed = [claim for claim in report.claims if not claim.held]
    if failed:
        console.print(f"[bold red]{len(failed)} of {len(report.claims)} checks failed[/], in {report.seconds} s:")
        for claim in failed:
            console.print(f"  {claim.statement}: {claim.seen}", markup=False)
    else:
        console.print(f"[bold green]All {len(report.claims)} checks held[/], in {report.seconds} s.")
