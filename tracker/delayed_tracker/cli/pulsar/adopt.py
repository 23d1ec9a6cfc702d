"""Command ``delayed-tracker pulsar adopt``: copies the buckets of brokers into a storage of the service."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.pulsar.options import (
    CLUSTER_HELP,
    Backup,
    DryRun,
    OneSubscription,
    OneTopic,
    Yes,
)
from delayed_tracker.cli.terminal.keyboard import require_consent
from delayed_tracker.cli.terminal.options import AsJson
from delayed_tracker.cli.terminal.output import counted, print_json, progress, say, show, size, table
from delayed_tracker.cluster.address import Cluster, ClusterAddress, connected
from delayed_tracker.cluster.adopted import AdoptedSubscription, AdoptionOptions
from delayed_tracker.cluster.adopting import BucketAdoption
from delayed_tracker.cluster.change_record import ChangeRecord
from delayed_tracker.cluster.listing import ClusterListing, SubscriptionNode
from delayed_tracker.storage.maintenance.opening import WholeStorage, is_storage_there, opened_storage
from delayed_tracker.storage.registry import open_storage

LEFT_OUT_SHOWN: Final = 100
"""Buckets that are listed as left out without --json, at most; all are counted."""


def adopt(
    *,
    source: Annotated[str, typer.Option("--from", help=CLUSTER_HELP, metavar="CLUSTER")],
    target: Annotated[
        str,
        typer.Option(
            "--to",
            help="Storage of the service (bucketSnapshotStorageUrl); sqlite:PATH, which no service has open, may be new.",
            metavar="URL",
        ),
    ],
    topic: OneTopic = None,
    subscription: OneSubscription = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    backup: Backup = None,
    as_json: AsJson = False,
) -> None:
    """Copy the buckets of brokers into a storage, verified; the brokers' own are not touched.

    Each snapshot is stored with the same bytes and read back, and the cursor's acknowledgements are applied. A bucket that
    cannot be read is left out and listed, and the exit status is 1: the dispatcher offers its messages again when it opens
    the tracker. A tracker of which the storage has other buckets is refused.

    Example: delayed-tracker pulsar adopt --from bookkeeper+zk:zk1:2181 --to sqlite:data/tracker.db
    """
    address = ClusterAddress.parse(source, "--from")
    wanted = (topic, subscription)
    adopted = asyncio.run(_adopt(address, target, wanted, dry_run=dry_run, yes=yes, backup=backup, as_json=as_json))
    if as_json:
        print_json(_document(adopted, dry_run=dry_run))
    elif dry_run:
        say("nothing was changed")
    else:
        _show_adopted(adopted)
    if any(one.left_out for one in adopted):
        raise typer.Exit(ExitCode.FAILURE)


async def _adopt(
    address: ClusterAddress,
    target: str,
    wanted: tuple[str | None, str | None],
    *,
    dry_run: bool,
    yes: bool,
    backup: Path | None,
    as_json: bool,
) -> list[AdoptedSubscription]:
    async with connected(address, "--from") as cluster:
        with progress("looking for subscriptions", "topics") as listed:
            nodes = await ClusterListing(cluster).subscriptions(*wanted, progress=listed)
        found = [node for node in nodes if node.properties]
        async with _planned_storage(target) as storage:
            planned = await _plan(cluster, storage, found)
        if not as_json:
            _show_planned(planned)
        waiting = [one for one in planned if _is_new(one)]
        if dry_run or not waiting:
            return planned
        buckets = sum(one.bucket_count for one in waiting)
        question = (
            f"adopt {counted(buckets, 'bucket')} of {counted(len(waiting), 'subscription')} into {target}, and take their "
            "trackers over there"
        )
        await require_consent(question, yes=yes)
        async with opened_storage("--to", target, creates=True) as storage:
            return await _copy(cluster, storage, planned, backup)


@asynccontextmanager
async def _planned_storage(url: str) -> AsyncIterator[WholeStorage]:
    """Open a storage for a look; in the place of one that would be made, an empty one in memory."""
    if is_storage_there(url):
        async with opened_storage("--to", url) as storage:
            yield storage
    else:
        open_storage(url)
        async with opened_storage("--to", "memory:", creates=True) as storage:
            yield storage


async def _plan(cluster: Cluster, storage: WholeStorage, nodes: list[SubscriptionNode]) -> list[AdoptedSubscription]:
    planned = []
    with progress("planning", "subscriptions") as shown:
        adoption = BucketAdoption(cluster, storage)
        for number, node in enumerate(nodes, start=1):
            planned.append(await adoption.plan(node.topic, node.subscription))
            shown(number, len(nodes))
    return planned


async def _copy(
    cluster: Cluster, storage: WholeStorage, planned: list[AdoptedSubscription], backup: Path | None
) -> list[AdoptedSubscription]:
    total = sum(one.bucket_count + len(one.left_out) for one in planned if _is_new(one))
    done = 0
    with ExitStack() as opened:
        record = None
        if backup is not None:
            record = opened.enter_context(await ChangeRecord.create(backup, cluster))
        shown = opened.enter_context(progress("adopting", "buckets"))

        def copied(count: int) -> None:
            nonlocal done
            done += count
            shown(done, max(done, total))

        adoption = BucketAdoption(cluster, storage, AdoptionOptions(record=record, copied=copied))
        return [await adoption.adopt(one.topic, one.subscription) if _is_new(one) else one for one in planned]


def _is_new(one: AdoptedSubscription) -> bool:
    return one.bucket_count > 0 and not one.is_there


def _show_planned(planned: list[AdoptedSubscription]) -> None:
    numbers = ("buckets", "messages", "size", "left out")
    rows = table("to adopt", "subscription", "topic", *numbers, "", numbers=numbers)
    for one in planned:
        rows.add_row(
            one.subscription,
            str(one.topic),
            str(one.bucket_count),
            str(one.message_count),
            size(one.byte_count),
            str(len(one.left_out)),
            "there already" if one.is_there else "",
        )
    show(rows)


def _show_adopted(adopted: list[AdoptedSubscription]) -> None:
    left_out = [(one, each) for one in adopted for each in one.left_out]
    if left_out:
        rows = table("left out", "subscription", "topic", "bucket", "reason", numbers=("bucket",))
        for one, each in left_out[:LEFT_OUT_SHOWN]:
            rows.add_row(one.subscription, str(one.topic), each.property.value, each.reason)
        show(rows)
        if len(left_out) > LEFT_OUT_SHOWN:
            say(f"and {len(left_out) - LEFT_OUT_SHOWN} more; --json has all")
    new = [one for one in adopted if not one.is_there]
    say(
        f"{counted(sum(one.bucket_count for one in new), 'bucket')} of {counted(len(new), 'subscription')} adopted and verified: "
        f"{counted(sum(one.message_count for one in new), 'message')}, {size(sum(one.byte_count for one in new))}; "
        f"{counted(len(adopted) - len(new), 'subscription')} there already, {counted(len(left_out), 'bucket')} left out"
    )


def _document(adopted: list[AdoptedSubscription], *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "subscriptions": [
            {
                "topic": str(one.topic),
                "subscription": one.subscription,
                "bucket_count": one.bucket_count,
                "message_count": one.message_count,
                "byte_count": one.byte_count,
                "there_already": one.is_there,
                "epoch": one.epoch,
                "left_out": one.left_out,
            }
            for one in adopted
        ],
    }
