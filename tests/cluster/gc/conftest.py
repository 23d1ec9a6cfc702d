"""Fixtures of the tests of ``delayed-tracker pulsar gc``: a real service beside a cluster of real servers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
from structlog.testing import capture_logs

from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.cli.conftest import Ran, command
from tests.cluster.made_cluster import TOPIC, MadeCluster
from tests.service.harness.shell import RunningService, running_service

__all__ = ["command"]

GONE = TopicName.parse("persistent://t/ns/gone")
FOREIGN = TopicName.parse("persistent://elsewhere/ns/orders")


@dataclass(frozen=True)
class Trackers:
    """The trackers of a service."""

    service: RunningService

    async def open(self, topic: TopicName | str = TOPIC, subscription: str = "workers") -> int:
        """Open a tracker with one message that is due in a while, and return its epoch."""
        ref = pb.TrackerRef(topic=str(topic), subscription=subscription)
        opened = await self.service.stub.OpenTracker(pb.OpenTrackerRequest(tracker=ref, owner="broker"))
        due = self.service.clock.now_ms() + 100_000
        await self.service.stub.AddMessages(
            pb.AddMessagesRequest(
                tracker=ref, epoch=opened.epoch, deliver_at_ms=[due], ledger_ids=[3], entry_ids=[opened.epoch]
            )
        )
        return opened.epoch

    async def names(self) -> set[tuple[str, str]]:
        """Return topics and subscriptions of all trackers."""
        listed = (await self.service.stub.ListTrackers(pb.ListTrackersRequest())).trackers
        return {(each.tracker.topic, each.tracker.subscription) for each in listed}


@pytest.fixture
async def trackers() -> AsyncIterator[Trackers]:
    """The trackers of a service of the test's own, which has none yet."""
    # The service's log would be between the command's answers.
    with capture_logs():
        async with running_service() as service:
            yield Trackers(service)


@pytest.fixture
def gc(command, made: MadeCluster, trackers: Trackers) -> Callable[..., Awaitable[Ran]]:
    """Return what runs ``delayed-tracker pulsar gc`` beside the test's loop, for the cluster and the service of the test."""

    async def ran(*arguments: str, cluster: str = made.address.text) -> Ran:
        return await asyncio.to_thread(
            command, "pulsar", "gc", cluster, "--service", trackers.service.address, *arguments
        )

    return ran
