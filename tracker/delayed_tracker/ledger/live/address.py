"""Address of a running cluster, and the options of reading it: ``bookkeeper+zk:HOST:PORT[,HOST:PORT...][/ROOT][?...]``.

ROOT is the root of the cluster's metadata store: topics are below ROOT/managed-ledgers, BookKeeper below ROOT/ledgers.

    maxBytesPerSecond   bytes of entries that all readers of the address together read in a second; 1,024 to 2**40
    frameBytesMax       most bytes of a reply of a bookie
    tls, tlsCa, tlsCertificate, tlsKey, tlsHostnameVerification   see :mod:`delayed_tracker.bookkeeper.tls`
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from delayed_tracker.bookkeeper.settings import FRAME_BYTES_MIN, REPLY_BYTES_MAX
from delayed_tracker.bookkeeper.tls import TLS_KEYS, ClusterTls
from delayed_tracker.core.values.errors import InvalidInput

SCHEME: Final = "bookkeeper+zk"
RATE: Final = "maxBytesPerSecond"
FRAME: Final = "frameBytesMax"
OPTIONS: Final = (RATE, FRAME, *TLS_KEYS)
_RANGES: Final = {RATE: (1_024, 2**40), FRAME: (FRAME_BYTES_MIN, 2**31 - 1)}
"""Lowest and highest number of bytes."""
_PLACE: Final = re.compile(r"(?P<hosts>[^/]+)(?P<root>(/[^/]+)*)/?")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:]+\]|[^\s:@\[\]]+):(?P<port>[0-9]{1,5})")
_PORT_MAX: Final = 65_535
_OTHER_STORE: Final = re.compile(r"bookkeeper\+(?!zk$|file$)(?P<store>[a-z0-9+-]+)")


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """One cluster, and how fast it is read."""

    text: str
    """URL, for messages."""
    hosts: str
    """``HOST:PORT`` of the ZooKeeper servers, several divided by commas."""
    root: str = ""
    """Root of the metadata store, such as ``/pulsar``; empty for the whole ZooKeeper."""
    bytes_per_second_max: int | None = None
    """Bytes of entries that all readers of this address together may read in a second; None for no limit."""
    frame_bytes_max: int = REPLY_BYTES_MAX
    """Most bytes of a reply of a bookie."""
    tls: ClusterTls = field(default_factory=ClusterTls)

    @classmethod
    def parse(cls, text: str, place: str, options: Mapping[str, str]) -> Self:
        """Take the parts of a URL.

        Args:
            text: the URL.
            place: between the scheme and the options.
            options: by name, all of them in ``OPTIONS``.
        Raises:
            InvalidInput: the place has no addresses, or an option is out of range.
        """
        hosts, root = parse_place("source", text, place)
        return cls(
            text,
            hosts,
            root,
            byte_count("source", text, options, RATE),
            byte_count("source", text, options, FRAME) or REPLY_BYTES_MAX,
            ClusterTls.parse("source", text, options),
        )

    @property
    def ledgers(self) -> str:
        """Node of BookKeeper's ledgers."""
        return f"{self.root}/ledgers"

    def share(self, reader_count: int) -> "ClusterAddress":
        """Return the address for one of several readers that divide the rate equally among them."""
        if self.bytes_per_second_max is None:
            return self
        return replace(self, bytes_per_second_max=max(1, self.bytes_per_second_max // reader_count))


def parse_place(field: str, text: str, place: str) -> tuple[str, str]:
    """Return the addresses of ZooKeeper, divided by commas, and the root: empty, or a path without a slash at its end.

    Args:
        field: of the URL, for messages.
        text: the URL, for messages.
        place: ``HOST:PORT[,HOST:PORT][/ROOT]``.
    Raises:
        InvalidInput: it has no addresses, or the root is not the path of a node.
    """
    parts = _PLACE.fullmatch(place)
    if parts is None or not all(map(_is_host, parts["hosts"].split(","))):
        raise InvalidInput(field, text, f"give {SCHEME}:HOST:PORT, several divided by commas, and /ROOT if any")
    if {".", ".."}.intersection(parts["root"].split("/")):
        raise InvalidInput(field, text, "give the root as the path of a node, without . and ..")
    return parts["hosts"], parts["root"]


def refuse_other_store(text: str, scheme: str, field: str = "source") -> None:
    """Refuse a scheme that names a metadata store other than ZooKeeper, by the name of the store.

    Raises:
        InvalidInput: it does.
    """
    found = _OTHER_STORE.fullmatch(scheme)
    if found is not None:
        raise InvalidInput(
            field,
            text,
            f"the metadata store {found['store']!r} is not supported, only ZooKeeper: {SCHEME}:HOST:PORT[/ROOT]",
        )


def _is_host(text: str) -> bool:
    found = _HOST.fullmatch(text)
    return found is not None and 1 <= int(found["port"]) <= _PORT_MAX


def byte_count(field: str, text: str, options: Mapping[str, str], name: str) -> int | None:
    """Return the value of an option that is a number of bytes; None without the option.

    Args:
        field: of the URL, for messages.
        text: the URL, for messages.
        options: of the URL, by name.
        name: ``RATE``, or another option of this module that is a number of bytes.
    Raises:
        InvalidInput: it is no number, or out of range.
    """
    value = options.get(name)
    if value is None:
        return None
    low, high = _RANGES[name]
    if not value.isascii() or not value.isdigit() or not low <= int(value[:20]) <= high:
        raise InvalidInput(field, text, f"{name}={value}: give a number of bytes from {low} to {high}")
    return int(value)
