"""Addresses of live Pulsar clusters: ``bookkeeper+zk:HOST:PORT[,HOST:PORT][/ROOT][?option=value&...]``.

ROOT is the chroot of Pulsar's metadata store: topics are below ``ROOT/managed-ledgers``, ledgers below ``ROOT/ledgers``,
brokers below ``ROOT/loadbalance/brokers``. The Spark job writes the same address as ``pulsar:zk://HOST:PORT/ROOT``.

    ensemble, writeQuorum, ackQuorum   of new ledgers, all three; without them as the topic's own ledgers
    digest                             of new ledgers: crc32, crc32c, hmac or dummy; without it as the topic's own ledgers
    waitSeconds                        how long to wait until no broker has a topic loaded, 0 (default) to 86400
    backup                             file for what is changed, of the job's address alone; commands have --backup
    frameBytesMax                      most bytes of a reply of a bookie; more than the default where Pulsar's maxMessageSize was raised
    maxBytesPerSecond                  bytes of snapshots that a command reads in a second, 1,024 to 2**40; without it as fast as it can
    admin                              http://HOST:PORT of every broker, divided by commas, instead of those in ZooKeeper
    adminTokenFile, adminCa            token for the brokers; certificates of the authorities that signed theirs
    tls, tlsCa, tlsCertificate, tlsKey, tlsHostnameVerification   as of the storage bookkeeper:
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final, Self
from urllib.parse import parse_qsl, urlencode

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.metadata.zookeeper import Node
from delayed_tracker.bookkeeper.settings import REPLY_BYTES_MAX
from delayed_tracker.bookkeeper.tls import TLS_KEYS
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import SubscriptionNotFound, TopicNotFound
from delayed_tracker.ledger.live.address import FRAME, RATE, byte_count, parse_place, refuse_other_store
from delayed_tracker.ledger.live.address import SCHEME as SOURCE_SCHEME
from delayed_tracker.ledger.live.throttle import Throttle
from delayed_tracker.ledger.topic_name import TopicName, encode_name
from delayed_tracker.storage.bookkeeper.connecting import client_of
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl

SCHEME: Final = f"{SOURCE_SCHEME}:"
JOB_SCHEME: Final = "pulsar:zk://"
ADMINS_MAX: Final = 1_000
"""Brokers that an address may name."""
_INSTANCE_BYTES_MAX: Final = 256
_QUORUMS: Final = ("ensemble", "writeQuorum", "ackQuorum")
_ADMIN: Final = ("admin", "adminTokenFile", "adminCa")
_WAIT: Final = "waitSeconds"
_BACKUP: Final = "backup"
_KEYS: Final = (*_QUORUMS, "digest", *_ADMIN, _WAIT, RATE, FRAME, *TLS_KEYS)
WAIT_S_MAX: Final = 86_400


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """Address of one cluster."""

    text: str
    """The address as it was given."""
    root: str
    """Chroot of the metadata store: empty, or ``/NODE`` without a slash at its end."""
    connection: BookKeeperUrl
    """Addresses and TLS of ZooKeeper and bookies; ensemble, quorums and digest count only where the fields below say so."""
    has_quorums: bool = False
    """True if new ledgers have the ensemble and the quorums of ``connection``."""
    has_digest: bool = False
    """True if new ledgers have the digest of ``connection``."""
    admin: tuple[str, ...] = ()
    """URLs of all brokers; empty for those that ZooKeeper lists."""
    admin_token_file: str | None = None
    admin_ca: str | None = None
    wait_s: int = 0
    """Seconds to wait until no broker has a topic loaded; 0 refuses a loaded topic at once."""
    bytes_per_second_max: int | None = None
    """Bytes of snapshots that may be read in a second; None for no limit."""
    frame_bytes_max: int = REPLY_BYTES_MAX
    """Most bytes of a reply of a bookie."""
    backup: str | None = None
    """File for what the Spark job changes; commands have an option of their own."""

    @classmethod
    def parse(cls, text: str, field: str = "cluster") -> Self:
        """Parse an address.

        Args:
            text: ``bookkeeper+zk:…`` or ``pulsar:zk://…``.
            field: option of the address, for messages.
        Raises:
            InvalidInput: it is no such address, another metadata store, or an option is unknown or out of range.
        """
        rest = _rest(text, field)
        place, _, query = rest.partition("?")
        if "#" in text:
            raise InvalidInput(field, text, f"write {SCHEME}HOST:PORT[,HOST:PORT][/ROOT], without #")
        hosts, root = parse_place(field, text, place)
        # A plus stands for itself, as in the URLs of sources.
        pairs = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)
        given = dict(pairs)
        known = (*_KEYS, _BACKUP) if text.startswith(JOB_SCHEME) else _KEYS
        for key in given:
            if key not in known:
                raise InvalidInput(field, text, f"{key!r} is none of {', '.join(known)}")
        if len(given) < len(pairs) or not all(given.values()):
            raise InvalidInput(field, text, "give each option once, as option=value, divided by &")
        if 0 < sum(key in given for key in _QUORUMS) < len(_QUORUMS):
            raise InvalidInput(field, text, f"give {', '.join(_QUORUMS)} together, or none of them")
        passed = urlencode(
            {key: value for key, value in given.items() if key not in (*_ADMIN, _WAIT, RATE, FRAME, _BACKUP)}
        )
        try:
            connection = BookKeeperUrl.parse(f"zk://{hosts}{root}/ledgers?{passed}")
        except InvalidInput as error:
            raise InvalidInput(field, text, error.remedy) from error
        return cls(
            text,
            root,
            connection,
            has_quorums=_QUORUMS[0] in given,
            has_digest="digest" in given,
            admin=admin_urls(given["admin"], field, text) if "admin" in given else (),
            admin_token_file=given.get("adminTokenFile"),
            admin_ca=given.get("adminCa"),
            wait_s=_wait_s(given.get(_WAIT, "0"), field, text),
            bytes_per_second_max=byte_count(field, text, given, RATE),
            frame_bytes_max=byte_count(field, text, given, FRAME) or REPLY_BYTES_MAX,
            backup=given.get(_BACKUP),
        )

    def with_admin(self, text: str | None, field: str = "--admin") -> Self:
        """Return the address with other URLs of brokers, divided by commas; None leaves them.

        Raises:
            InvalidInput: one is no URL of a broker.
        """
        return self if text is None else replace(self, admin=admin_urls(text, field, text))

    @property
    def zookeeper(self) -> str:
        """``HOST:PORT`` of ZooKeeper's servers, divided by commas."""
        return self.connection.zookeeper

    @property
    def managed_ledgers(self) -> str:
        """Node below which the topics are."""
        return f"{self.root}/managed-ledgers"

    @property
    def brokers(self) -> str:
        """Node below which running brokers register."""
        return f"{self.root}/loadbalance/brokers"

    @property
    def policies(self) -> str:
        """Node below which the policies of namespaces are, unless another store has the configuration."""
        return f"{self.root}/admin/policies"

    @property
    def local_policies(self) -> str:
        """Node below which the cluster's own policies of namespaces are, such as their bundles."""
        return f"{self.root}/admin/local-policies"

    def topic_node(self, topic: TopicName) -> str:
        """Return the node of a topic's managed ledger."""
        return f"{self.managed_ledgers}/{topic.managed_ledger}"

    def cursor_node(self, topic: TopicName, subscription: str) -> str:
        """Return the node of a subscription's cursor.

        Raises:
            InvalidInput: the name cannot be encoded.
        """
        return f"{self.topic_node(topic)}/{encode_name(subscription, 'subscription')}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A connected cluster."""

    address: ClusterAddress
    client: BookKeeper
    """Its ``zookeeper`` is the session for Pulsar's nodes."""
    throttle: Throttle = field(default_factory=lambda: Throttle(None, time.monotonic))
    """Throttle of all snapshots that are read; no limit by default."""

    async def instance(self) -> str:
        """Return the id of the BookKeeper cluster; empty if it has none, as a standalone Pulsar.

        Raises:
            ZooKeeperUnavailable: ZooKeeper does not answer.
        """
        node = await self.client.zookeeper.get(f"{self.address.root}/ledgers/INSTANCEID")
        return "" if node is None else node.value[:_INSTANCE_BYTES_MAX].decode("utf-8", "replace").strip()

    async def require_topics(self, field: str = "cluster") -> None:
        """Return if ZooKeeper has the node below which topics are.

        Args:
            field: option of the address, for messages.
        Raises:
            InvalidInput: it has no such node.
            ZooKeeperUnavailable: ZooKeeper does not answer.
        """
        path = self.address.managed_ledgers
        if not await self.client.zookeeper.exists(path):
            raise InvalidInput(
                field,
                self.address.text,
                f"ZooKeeper has no node {path}; correct the root, which is the chroot of metadataStoreUrl",
            )

    async def topic_node(self, topic: TopicName) -> Node:
        """Return the newest managed-ledger node of a topic.

        Raises:
            TopicNotFound: there is none.
            ZooKeeperUnavailable: ZooKeeper does not answer.
        """
        path = self.address.topic_node(topic)
        await self.client.zookeeper.sync(path)
        node = await self.client.zookeeper.get(path)
        if node is None:
            raise TopicNotFound(f"{self.address.text} has no topic {topic}", metadata={"topic": str(topic)})
        return node

    async def cursor_node(self, topic: TopicName, subscription: str) -> Node:
        """Return the newest node of a subscription's cursor.

        Raises:
            SubscriptionNotFound: there is none.
            ZooKeeperUnavailable: ZooKeeper does not answer.
        """
        path = self.address.cursor_node(topic, subscription)
        await self.client.zookeeper.sync(path)
        node = await self.client.zookeeper.get(path)
        if node is None:
            raise SubscriptionNotFound(
                f"{topic} has no subscription {subscription!r} at {self.address.text}",
                metadata={"topic": str(topic), "subscription": subscription},
            )
        return node


@asynccontextmanager
async def connected(address: ClusterAddress, field: str = "cluster") -> AsyncIterator[Cluster]:
    """Connect to a cluster for a block.

    Args:
        address: of the cluster.
        field: option of the address, for messages.
    Raises:
        InvalidInput: ZooKeeper has no Pulsar there, or a TLS file cannot be used.
        ZooKeeperUnavailable: ZooKeeper does not answer.
        LedgerMetadataInvalid: there is no BookKeeper cluster below the root.
    """
    async with client_of(address.connection, reply_bytes_max=address.frame_bytes_max) as client:
        cluster = Cluster(address, client, Throttle(address.bytes_per_second_max, time.monotonic))
        await cluster.require_topics(field)
        yield cluster


def admin_urls(text: str, field: str, given: str) -> tuple[str, ...]:
    """Return URLs of brokers, divided by commas, without slashes at their ends.

    Raises:
        InvalidInput: one is not http(s)://HOST[:PORT], or they are too many.
    """
    urls: Sequence[str] = [url.strip().rstrip("/") for url in text.split(",")]
    for url in urls:
        scheme, separator, host = url.partition("://")
        if scheme not in ("http", "https") or not separator or not host or set(host) & set("/?#@ "):
            raise InvalidInput(field, given, f"{url!r} is no http://HOST:PORT of a broker's admin interface")
    if len(urls) > ADMINS_MAX:
        raise InvalidInput(field, given, f"give at most {ADMINS_MAX} brokers")
    return tuple(dict.fromkeys(urls))


def _wait_s(value: str, field: str, text: str) -> int:
    if not value.isascii() or not value.isdigit() or int(value[:9]) > WAIT_S_MAX:
        raise InvalidInput(field, text, f"{_WAIT} is a number of seconds from 0 to {WAIT_S_MAX}, not {value!r}")
    return int(value)


def _rest(text: str, field: str) -> str:
    for scheme in (SCHEME, JOB_SCHEME):
        if text.startswith(scheme):
            return text.removeprefix(scheme)
    prefix, _, rest = text.partition(":")
    refuse_other_store(text, f"bookkeeper+{rest.partition(':')[0]}" if prefix == "pulsar" else prefix, field)
    raise InvalidInput(field, text, f"write the address of a live cluster: {SCHEME}HOST:PORT[,HOST:PORT][/ROOT]")
