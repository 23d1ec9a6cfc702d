"""Command ``delayed-tracker pulsar publish``: writes the buckets of a storage where brokers look for them."""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from delayed_tracker.cli.pulsar.options import (
    CLUSTER_HELP,
    Admin,
    Backup,
    DryRun,
    OneSubscription,
    OneTopic,
    Yes,
)
from delayed_tracker.cli.service.config import index_settings_from
from delayed_tracker.cli.terminal.keyboard import require_consent
from delayed_tracker.cli.terminal.options import AsJson, BrokerConf, Config, Set
from delayed_tracker.cli.terminal.output import (
    counted,
    notice,
    print_json,
    progress,
    say,
    show,
    table,
)
from delayed_tracker.cluster.address import Cluster, ClusterAddress, connected
from delayed_tracker.cluster.change_record import ChangeRecord
from delayed_tracker.cluster.publication.bucket_switch import PublicationOptions, PublishedSubscription
from delayed_tracker.cluster.publication.publishing import SubscriptionPlan, plan_subscription, publish
from delayed_tracker.cluster.switch import require_not_loaded
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.storage.maintenance.opening import opened_storage
from delayed_tracker.storage.protocol import SnapshotStore


def publish_command(
    *,
    source: Annotated[
        str,
        typer.Option("--from", help="Storage with the buckets: the service's bucketSnapshotStorageUrl.", metavar="URL"),
    ],
    target: Annotated[str, typer.Option("--to", help=CLUSTER_HELP, metavar="CLUSTER")],
    topic: OneTopic = None,
    subscription: OneSubscription = None,
    admin: Admin = None,
    config: Config = None,
    broker_conf: BrokerConf = None,
    overrides: Set = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    backup: Backup = None,
    as_json: AsJson = False,
) -> None:
    """Publish the buckets of a storage as those of the brokers' own tracker; the topics must not be loaded.

    The buckets are cut again at the ends of ledgers, by the settings of the brokers (--broker-conf), and each subscription
    gets ledgers of its own. Then its cursor's bucket properties are replaced in one step, and the old buckets are deleted.
    The storage is not changed. What a bucket lacks, such as later messages, brokers replay when they load the topic.

    Example: delayed-tracker pulsar publish --from sqlite:data/tracker.db --to bookkeeper+zk:zk1:2181 --backup before.jsonl
    """
    address = ClusterAddress.parse(target, "--to").with_admin(admin)
    limits = index_settings_from(config, overrides, broker_conf).tracker_limits()
    asyncio.run(
        _publish(
            source, address, (topic, subscription), limits, dry_run=dry_run, yes=yes, backup=backup, as_json=as_json
        )
    )


async def _publish(
    source: str,
    address: ClusterAddress,
    wanted: tuple[str | None, str | None],
    limits: TrackerLimits,
    *,
    dry_run: bool,
    yes: bool,
    backup: Path | None,
    as_json: bool,
) -> None:
    async with opened_storage("--from", source) as whole, connected(address, "--to") as cluster:
        storage = whole.snapshots
        trackers = chosen(await storage.trackers(), *wanted, source)
        plans = []
        with progress("planning", "subscriptions") as planned:
            for number, tracker in enumerate(trackers, start=1):
                plans.append(await plan_subscription(cluster, storage, tracker, limits))
                planned(number, len(trackers))
        if not as_json:
            _show_plans(plans)
        published: list[PublishedSubscription] = []
        if not dry_run and any(plan.ranges for plan in plans):
            published = await _publish_plans(cluster, storage, plans, limits, yes=yes, backup=backup)
    if as_json:
        print_json(_document(plans, published, dry_run=dry_run))
    elif dry_run:
        say("nothing was changed")
    else:
        _show_published(published)


async def _publish_plans(
    cluster: Cluster,
    storage: SnapshotStore,
    plans: list[SubscriptionPlan],
    limits: TrackerLimits,
    *,
    yes: bool,
    backup: Path | None,
) -> list[PublishedSubscription]:
    waiting = [plan for plan in plans if plan.ranges]
    # Before the question: an operator who agrees should not be refused for what is known already.
    if not cluster.address.wait_s:
        await require_not_loaded(cluster, [plan.topic for plan in waiting], load_s=0)
    replaced = sum(len(plan.old) for plan in waiting)
    await require_consent(
        f"publish {counted(sum(len(plan.ranges) for plan in waiting), 'bucket')} of "
        f"{counted(len(waiting), 'subscription')} and delete {counted(replaced, 'bucket')} that they have now",
        yes=yes,
    )
    with ExitStack() as opened:
        record = None
        if backup is not None:
            record = opened.enter_context(await ChangeRecord.create(backup, cluster))
        shown = opened.enter_context(progress("publishing", "messages"))
        return await publish(
            cluster,
            storage,
            waiting,
            limits,
            options=PublicationOptions(record=record, report=notice, wait_s=cluster.address.wait_s),
            progress=shown,
        )


def chosen(
    trackers: list[tuple[str, str]], topic: str | None, subscription: str | None, source: str
) -> list[tuple[str, str]]:
    """Return the trackers of a topic, or of its partitions, and of a subscription.

    Raises:
        InvalidInput: the storage has none of them.
    """
    found = [
        (name, cursor)
        for name, cursor in trackers
        if (topic is None or name == topic or name.startswith(f"{topic}-partition-")) and subscription in (None, cursor)
    ]
    if not found:
        raise InvalidInput(
            "--from", source, f"it has no tracker like that, of {counted(len(trackers), 'tracker')} in all"
        )
    return found


def _show_plans(plans: list[SubscriptionPlan]) -> None:
    numbers = ("buckets", "messages", "buckets now")
    rows = table("to publish", "subscription", "topic", "ledgers", *numbers, numbers=numbers)
    for plan in plans:
        ledgers = f"{plan.ranges[0].first_ledger} to {plan.ranges[-1].last_ledger}" if plan.ranges else "-"
        rows.add_row(
            plan.subscription,
            str(plan.topic),
            ledgers,
            str(len(plan.ranges)),
            str(plan.index_count),
            str(len(plan.old)),
        )
    show(rows)


def _show_published(published: list[PublishedSubscription]) -> None:
    buckets = sum(len(one.buckets) for one in published)
    deleted = sum(len(one.deleted_ledgers) for one in published)
    say(
        f"{counted(sum(one.index_count for one in published), 'message')} of {counted(len(published), 'subscription')} "
        f"published in {counted(buckets, 'bucket')}; {counted(deleted, 'old bucket')} deleted"
    )
    left = [ledger for one in published for ledger in one.left_ledgers]
    if left:
        say(f"ledgers of old properties that were left: {', '.join(map(str, left))}")


def _document(
    plans: list[SubscriptionPlan], published: list[PublishedSubscription], *, dry_run: bool
) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "planned": [
            {
                "topic": str(plan.topic),
                "subscription": plan.subscription,
                "message_count": plan.index_count,
                "ranges": [
                    {
                        "first_ledger_id": one.first_ledger,
                        "last_ledger_id": one.last_ledger,
                        "message_count": one.index_count,
                    }
                    for one in plan.ranges
                ],
                "properties_now": plan.old,
            }
            for plan in plans
        ],
        "published": [
            {
                "topic": str(one.topic),
                "subscription": one.subscription,
                "message_count": one.index_count,
                "properties": one.buckets,
                "node": one.path,
                "replaced_version": one.version,
                "deleted_ledgers": one.deleted_ledgers,
                "left_ledgers": one.left_ledgers,
            }
            for one in published
        ],
    }
