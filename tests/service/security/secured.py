"""A whole service with tokens and rules, and callers of it over real sockets."""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import httpx

from delayed_tracker.service.server import BoundAddresses, TrackerServer
from delayed_tracker.v1 import ledger_pb2_grpc, tracker_pb2_grpc
from tests.service.harness.settings import settings_of
from tests.service.security.tokens import SECRET, bearer, data_url

TOPIC = "persistent://shop/orders/paid"
SUBSCRIPTION = "billing"
RULES = [
    {"role": "shop", "topic": TOPIC, "subscription": SUBSCRIPTION, "actions": ["dispatch"]},
    {"role": "reader", "topicPrefix": "persistent://shop/", "actions": ["read"]},
    {"role": "contents", "topicPrefix": "persistent://shop/", "actions": ["payload"]},
    {"role": "prometheus", "actions": ["metrics"]},
    {"role": "operator", "actions": ["admin"]},
]


@dataclass
class Secured:
    server: TrackerServer
    bound: BoundAddresses

    @contextlib.asynccontextmanager
    async def channel(self) -> AsyncIterator[grpc.aio.Channel]:
        async with grpc.aio.insecure_channel(str(self.bound.grpc)) as channel:
            yield channel

    @contextlib.asynccontextmanager
    async def trackers(self, token: str | None = None) -> AsyncIterator["Calls"]:
        async with self.channel() as channel:
            yield Calls(tracker_pb2_grpc.DelayedDeliveryTrackerServiceStub(channel), token)

    @contextlib.asynccontextmanager
    async def ledgers(self, token: str | None = None) -> AsyncIterator["Calls"]:
        async with self.channel() as channel:
            yield Calls(ledger_pb2_grpc.LedgerServiceStub(channel), token)

    @contextlib.asynccontextmanager
    async def http(self, token: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
        headers = {} if token is None else {"authorization": bearer(token)}
        async with httpx.AsyncClient(base_url=f"http://{self.bound.http}", headers=headers, timeout=60) as client:
            yield client


class Calls:
    """Stub whose calls carry a token."""

    def __init__(self, stub, token: str | None) -> None:
        self._stub = stub
        self._metadata = () if token is None else (("authorization", bearer(token)),)

    def __getattr__(self, name: str):
        method = getattr(self._stub, name)
        return lambda *given, **kwargs: method(*given, metadata=self._metadata, **kwargs)


def write_rules(path: Path, rules: list[dict[str, object]]) -> None:
    """Write the rules in one step, as editors and Kubernetes do."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps({"rules": rules}))
    draft.replace(path)


@contextlib.asynccontextmanager
async def secured(directory: Path, rules: list[dict[str, object]] = RULES, **changes) -> AsyncIterator[Secured]:
    """Run a service whose tokens are signed with ``SECRET``."""
    path = directory / "rules.json"
    write_rules(path, rules)
    given = {
        "storage_url": "memory:",
        "grpc_listen_address": "127.0.0.1:0",
        "http_listen_address": "127.0.0.1:0",
        "authentication_enabled": True,
        "authentication_providers": "token",
        "token_secret_key": data_url(SECRET),
        "authorization_enabled": True,
        "authorization_rules_file_path": str(path),
        "super_user_roles": "root",
        **changes,
    }
    server = TrackerServer(settings_of(**given))
    bound = await server.start()
    try:
        yield Secured(server, bound)
    finally:
        await server.stop()
