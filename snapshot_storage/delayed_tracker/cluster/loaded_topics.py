"""Finds out which topics the brokers of a cluster have loaded, without loading any.

Each broker answers ``GET /admin/v2/broker-stats/bookieops`` from the topics that it has at that moment. ``broker-stats/topics``
has what the last update of the statistics saw, up to ``statsUpdateFrequencyInSecs`` (60 s) ago: a topic that was loaded
since is missing there, and its cursors would be taken for free. Statistics of one topic load it.

A topic that is still being loaded is in neither list: ``switch.py`` knows it by its last ledger.

Source: Pulsar's BookieClientStatsGenerator, PulsarStats and BrokerStatsBase.
"""

import asyncio
import contextlib
import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from delayed_tracker.bookkeeper.metadata.errors import NodeMissing
from delayed_tracker.cluster.address import ADMINS_MAX, Cluster, ClusterAddress
from delayed_tracker.cluster.errors import BrokerUnavailable
from delayed_tracker.core.values.errors import InvalidInput, without_middle
from delayed_tracker.files.whole_file import read_whole

TIMEOUT_S: Final = 30.0
"""Time for a broker's whole answer."""
ANSWER_BYTES_MAX: Final = 256 << 20
"""Largest answer of a broker: about 350 bytes a topic, so some 700,000 topics."""
_BROKERS_AT_ONCE: Final = 8
_NODE_BYTES_MAX: Final = 1 << 20
_TOKEN_BYTES_MAX: Final = 64 << 10
_SAID_BYTES_MAX: Final = 300
_PATH: Final = "/admin/v2/broker-stats/bookieops"


@dataclass(frozen=True, slots=True)
class LoadedTopics:
    """Topics that brokers had loaded at a moment after the question."""

    broker_of: Mapping[str, str]
    """URL of the broker by full topic name."""
    brokers: tuple[str, ...]
    """URLs of the brokers that were asked; empty if none runs."""


async def ask_loaded_topics(cluster: Cluster, *, timeout_s: float = TIMEOUT_S) -> LoadedTopics:
    """Ask all brokers which topics they have loaded.

    Args:
        cluster: its address may name the brokers; else those are asked that are registered in ZooKeeper.
        timeout_s: seconds for each broker's answer.
    Raises:
        BrokerUnavailable: a broker does not answer, refuses, or answers something else. All of them must be known.
        InvalidInput: the file of the token, or of certificates, cannot be used.
        ZooKeeperUnavailable: ZooKeeper does not answer.
    """
    address = cluster.address
    urls = address.admin or await _registered(cluster)
    headers = {"Accept": "application/json", **_authorization(address)}
    tls = _tls(address) if any(url.startswith("https:") for url in urls) else None
    turns = asyncio.Semaphore(_BROKERS_AT_ONCE)

    async def ask(url: str) -> list[str]:
        async with turns:
            try:
                async with asyncio.timeout(timeout_s):
                    return await asyncio.to_thread(_loaded_by, url, headers, tls, timeout_s)
            except TimeoutError as error:
                raise BrokerUnavailable(
                    url, f"it did not answer {_PATH} within {timeout_s:g} s; look at its log, or correct its address"
                ) from error

    found = await asyncio.gather(*map(ask, urls))
    return LoadedTopics({topic: url for url, topics in zip(urls, found, strict=True) for topic in topics}, tuple(urls))


async def _registered(cluster: Cluster) -> tuple[str, ...]:
    """Return the URLs of the brokers that are registered, ascending by their names; empty if there is none."""
    zookeeper, place = cluster.client.zookeeper, cluster.address.brokers
    await zookeeper.sync(place)
    try:
        names = await zookeeper.children(place)
    except NodeMissing:
        return ()
    if len(names) > ADMINS_MAX:
        raise BrokerUnavailable(place, f"{len(names)} brokers are registered, and at most {ADMINS_MAX} are asked")
    urls: list[str] = []
    for name in names:
        node = await zookeeper.get(f"{place}/{name}")
        if node is not None:
            urls.append(_url_of(name, node.value))
    return tuple(dict.fromkeys(urls))


def _url_of(name: str, value: bytes) -> str:
    """Return the URL of the admin interface that a broker has registered, in the clear if it has both."""
    registered: object = None
    with contextlib.suppress(ValueError):
        registered = json.loads(value) if len(value) <= _NODE_BYTES_MAX else None
    if isinstance(registered, dict):
        for key in ("webServiceUrl", "webServiceUrlTls"):
            url = registered.get(key)
            if isinstance(url, str) and url.startswith(("http://", "https://")):
                return url.rstrip("/")
    raise BrokerUnavailable(name, "its registration in ZooKeeper has no webServiceUrl; name all brokers with --admin")


def _loaded_by(url: str, headers: Mapping[str, str], tls: ssl.SSLContext | None, timeout_s: float) -> list[str]:
    """Return the topics that one broker has loaded."""
    body = _get(url, headers, tls, timeout_s)
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise BrokerUnavailable(url, f"it answered {_PATH} with no JSON; correct its address") from error
    if not isinstance(answer, dict) or not all(isinstance(topics, dict) for topics in answer.values()):
        raise BrokerUnavailable(url, f"it answered {_PATH} with no topics by namespace; correct its address")
    return [str(topic) for topics in answer.values() for topic in topics]


def _get(url: str, headers: Mapping[str, str], tls: ssl.SSLContext | None, timeout_s: float) -> bytes:
    parts = urlsplit(url)
    connection: http.client.HTTPConnection
    try:
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(parts.netloc, timeout=timeout_s, context=tls)
        else:
            connection = http.client.HTTPConnection(parts.netloc, timeout=timeout_s)
        with contextlib.closing(connection):
            connection.request("GET", _PATH, headers=dict(headers))
            # It has the socket of its own, if the broker does not keep the connection.
            with connection.getresponse() as answer:
                body = answer.read(ANSWER_BYTES_MAX + 1)
    except (OSError, http.client.HTTPException) as error:
        problem = str(error) or type(error).__name__
        raise BrokerUnavailable(
            url, f"it cannot be asked for its topics ({problem}); start it, or name all running brokers with --admin"
        ) from error
    if answer.status in (401, 403):
        raise BrokerUnavailable(
            url, f"it refuses {_PATH} with {answer.status}; give a superuser's token with adminTokenFile=FILE"
        )
    if answer.status != 200:
        said = without_middle(body[:_SAID_BYTES_MAX].decode("utf-8", "replace"), _SAID_BYTES_MAX)
        raise BrokerUnavailable(url, f"it answered {_PATH} with {answer.status} {said!r}; correct its address")
    if len(body) > ANSWER_BYTES_MAX:
        raise BrokerUnavailable(url, f"its answer to {_PATH} is above {ANSWER_BYTES_MAX} bytes; correct its address")
    return body


def _authorization(address: ClusterAddress) -> dict[str, str]:
    path = address.admin_token_file
    if path is None:
        return {}
    try:
        token = read_whole(Path(path), _TOKEN_BYTES_MAX).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("adminTokenFile", path, f"give a file with a token: {error}") from error
    if not token or any(character.isspace() for character in token):
        raise InvalidInput("adminTokenFile", path, "give a file with one token")
    return {"Authorization": f"Bearer {token}"}


def _tls(address: ClusterAddress) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=address.admin_ca)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput("adminCa", address.admin_ca, f"give a file with certificates as PEM: {error}") from error
