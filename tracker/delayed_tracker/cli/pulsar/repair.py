"""Command ``delayed-tracker pulsar repair``: removes what is wrong with the buckets of a live cluster."""

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import typer

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.pulsar.inspect import Orphans, inspect_cluster, orphan_text
from delayed_tracker.cli.pulsar.options import (
    Admin,
    Backup,
    ClusterUrl,
    DryRun,
    OneSubscription,
    OneTopic,
    Yes,
)
from delayed_tracker.cli.pulsar.phases import Phases
from delayed_tracker.cli.terminal.keyboard import require_consent
from delayed_tracker.cli.terminal.options import AsJson
from delayed_tracker.cli.terminal.output import counted, notice, print_json, say, show, table
from delayed_tracker.cluster.address import Cluster, ClusterAddress, connected
from delayed_tracker.cluster.change_record import ChangeRecord
from delayed_tracker.cluster.repairing import Left, Repaired, RepairOptions, RepairPlan, plan_repair, repair

ROWS_SHOWN: Final = 100
"""Rows of each table without --json, at most; all are counted."""


def repair_command(
    cluster: ClusterUrl,
    *,
    topic: OneTopic = None,
    subscription: OneSubscription = None,
    orphans: Orphans = True,
    admin: Admin = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    backup: Backup = None,
    as_json: AsJson = False,
) -> None:
    """Remove the bucket properties that harm subscriptions, and delete the ledgers of buckets that no property names.

    Properties are removed that are malformed, or point to no ledger, to another's, or to a damaged snapshot; of ranges that
    share a ledger, those with fewer messages. Brokers replay the messages. Ledgers are deleted if their metadata says that
    they are a bucket's. Topics that a broker has loaded are left as they are, and the exit status is 1 if anything is left.

    Example: delayed-tracker pulsar repair bookkeeper+zk:zk1:2181 --backup before.jsonl
    """
    address = ClusterAddress.parse(cluster, "CLUSTER").with_admin(admin)
    plan, repaired = asyncio.run(
        _repair(
            address, (topic, subscription), orphans=orphans, dry_run=dry_run, yes=yes, backup=backup, as_json=as_json
        )
    )
    left = plan.left if repaired is None else repaired.left
    if as_json:
        print_json(_document(plan, repaired, dry_run=dry_run))
    elif repaired is None:
        _show_left(left)
        say("nothing was changed" if dry_run else "nothing to repair")
    else:
        _show_repaired(repaired)
    if left:
        raise typer.Exit(ExitCode.FAILURE)


async def _repair(
    address: ClusterAddress,
    wanted: tuple[str | None, str | None],
    *,
    orphans: bool,
    dry_run: bool,
    yes: bool,
    backup: Path | None,
    as_json: bool,
) -> tuple[RepairPlan, Repaired | None]:
    async with connected(address, "CLUSTER") as cluster:
        now_ms = time.time_ns() // 1_000_000
        plan = plan_repair(await inspect_cluster(cluster, *wanted, now_ms=now_ms, orphans=orphans))
        if not as_json:
            _show_plan(plan)
        if dry_run or plan.is_empty:
            return plan, None
        question = (
            f"remove {counted(len(plan.removals), 'bucket')} of subscriptions and delete "
            f"{counted(len(plan.orphans), 'ledger')} without a property, where topics are not loaded"
        )
        await require_consent(question, yes=yes)
        return plan, await _make_changes(cluster, plan, backup)


async def _make_changes(cluster: Cluster, plan: RepairPlan, backup: Path | None) -> Repaired:
    with ExitStack() as opened:
        record = None
        if backup is not None:
            record = opened.enter_context(await ChangeRecord.create(backup, cluster))
        bars = opened.enter_context(Phases())
        options = RepairOptions(
            record=record,
            report=notice,
            progress=bars.phase("repairing", "steps"),
            listed=bars.phase("reading properties again", "topics"),
        )
        return await repair(cluster, plan, options)


def _show_plan(plan: RepairPlan) -> None:
    if plan.removals:
        rows = table(
            "properties to remove", "subscription", "topic", "property", "bucket", "problem", numbers=("bucket",)
        )
        for removal in plan.removals[:ROWS_SHOWN]:
            named = removal.property
            rows.add_row(removal.subscription, str(removal.topic), named.name, named.value, removal.fault.value)
        show(rows)
        _say_more(len(plan.removals))
    if plan.orphans:
        rows = table("ledgers to delete", "subscription", "topic", "ledger", "", numbers=("ledger",))
        for ledger in plan.orphans[:ROWS_SHOWN]:
            rows.add_row(ledger.subscription, ledger.topic, str(ledger.ledger_id), orphan_text(ledger))
        show(rows)
        _say_more(len(plan.orphans))


def _show_repaired(repaired: Repaired) -> None:
    _show_left(repaired.left)
    say(
        f"{counted(len(repaired.removed), 'bucket')} removed from {counted(len(repaired.nodes), 'subscription')}, "
        f"{counted(len(repaired.deleted_ledgers), 'ledger')} deleted; {counted(len(repaired.left), 'problem')} left"
    )


def _show_left(left: list[Left]) -> None:
    if not left:
        return
    rows = table("left as they are", "subscription", "topic", "bucket", "reason", numbers=("bucket",))
    for each in left[:ROWS_SHOWN]:
        rows.add_row(each.subscription or "-", each.topic or "-", each.bucket or "-", each.reason)
    show(rows)
    _say_more(len(left))


def _say_more(count: int) -> None:
    if count > ROWS_SHOWN:
        say(f"and {count - ROWS_SHOWN} more; --json has all")


def _document(plan: RepairPlan, repaired: Repaired | None, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "planned": {
            "removals": [
                {
                    "topic": str(each.topic),
                    "subscription": each.subscription,
                    "property": each.property,
                    "problem": each.fault,
                }
                for each in plan.removals
            ],
            "orphans": plan.orphans,
        },
        "repaired": None
        if repaired is None
        else {
            "removed": [
                {"topic": str(each.topic), "subscription": each.subscription, "property": each.property}
                for each in repaired.removed
            ],
            "nodes": repaired.nodes,
            "deleted_ledgers": repaired.deleted_ledgers,
        },
        "left": plan.left if repaired is None else repaired.left,
    }
