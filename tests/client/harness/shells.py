"""Both shells of the client behind one interface, so that a test of the rules runs with each."""

import asyncio
import enum
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from delayed_tracker.client import ClientCredentials, ClientSettings, DelayedTrackerClient, blocking
from tests.service.harness.shell import until

_END = object()


class Shell(enum.Enum):
    ASYNCIO = "asyncio"
    BLOCKING = "blocking"

    @asynccontextmanager
    async def connect(
        self, address: str, *, settings: ClientSettings | None = None, credentials: ClientCredentials | None = None
    ):
        given = {"settings": settings, "credentials": credentials}
        if self is Shell.ASYNCIO:
            async with DelayedTrackerClient.connect(address, **given) as client:
                yield client
        else:
            async with Threaded(blocking.DelayedTrackerClient.connect(address, **given)) as client:
                yield client


class Threaded:
    """Blocking client, view, session or lease with the interface of the asyncio one: each call runs in a thread."""

    def __init__(self, used) -> None:
        self.used = used

    def __getattr__(self, name):
        value = getattr(self.used, name)
        if not callable(value):
            return value

        async def call(*arguments, **options):
            return threaded(await asyncio.to_thread(value, *arguments, **options))

        return call

    def __len__(self) -> int:
        return len(self.used)

    @property
    def ledgers(self):
        return Threaded(self.used.ledgers)

    def read_entries(self, *arguments, **options):
        return each(self.used.read_entries(*arguments, **options))

    def view_tracker(self, topic, subscription):
        return Threaded(self.used.view_tracker(topic, subscription))

    def list_trackers(self, *arguments, **options):
        return each(self.used.list_trackers(*arguments, **options))

    def membership(self):
        return each(self.used.membership())

    def add_stream(self, batches):
        return each(self.used.add_stream(batches))

    async def __aenter__(self):
        return threaded(await asyncio.to_thread(self.used.__enter__))

    async def __aexit__(self, kind, error, trace):
        return await asyncio.to_thread(self.used.__exit__, kind, error, trace)


async def until_disconnected(client) -> None:
    """Return when a client has noticed that its connection is gone: a call before that fails instead of waiting."""
    ready = grpc.ChannelConnectivity.READY
    channel = getattr(client, "used", client)._calls._channel
    if isinstance(channel, grpc.aio.Channel):
        await until(lambda: channel.get_state() is not ready)
        return
    states = []
    channel.subscribe(states.append)
    await until(lambda: states and states[-1] is not ready)
    channel.unsubscribe(states.append)


def threaded(value):
    kinds = (blocking.DelayedTrackerClient, blocking.TrackerView, blocking.TrackerSession, blocking.Lease)
    return Threaded(value) if isinstance(value, kinds) else value


async def each(iterator) -> AsyncIterator:
    try:
        while (value := await asyncio.to_thread(next, iterator, _END)) is not _END:
            yield value
    finally:
        await asyncio.to_thread(iterator.close)


class Batches:
    """Batches of a stream for both shells; an exception among them is raised in its turn."""

    def __init__(self, *batches) -> None:
        self._batches = batches
        self.asked_count = 0

    def __iter__(self):
        for batch in self._batches:
            self.asked_count += 1
            if isinstance(batch, Exception):
                raise batch
            yield batch

    async def __aiter__(self):
        for batch in self:
            yield batch
