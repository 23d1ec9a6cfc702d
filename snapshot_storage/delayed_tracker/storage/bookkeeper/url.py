"""Parses ``bookkeeper:zk://HOST:PORT[,HOST:PORT]/LEDGERS?root=…`` into what client and storage need."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self, TypeVar
from urllib.parse import parse_qsl, urlsplit

from delayed_tracker.bookkeeper.tls import TLS_KEYS, ClusterTls
from delayed_tracker.bookkeeper.wire.digest import DigestType
from delayed_tracker.core.values.errors import InvalidInput

DEFAULT_ROOT: Final = "/delayed-tracker"
T = TypeVar("T")

_DIGESTS: Final = {kind.name.lower(): kind for kind in DigestType}
_QUORUMS: Final = ("ensemble", "writeQuorum", "ackQuorum")
_KEYS: Final = ("root", *_QUORUMS, "digest", *TLS_KEYS)
_FIELD: Final = "storage URL"


@dataclass(frozen=True, slots=True)
class BookKeeperUrl:
    """One place in a BookKeeper cluster."""

    text: str
    zookeeper: str
    """``HOST:PORT``, several divided by commas."""
    ledgers: str
    """Node of the cluster's ledgers, ``/ledgers`` mostly."""
    root: str = DEFAULT_ROOT
    """Node of everything that is ours; ledgers carry it in their custom metadata."""
    ensemble: int = 2
    write_quorum: int = 2
    ack_quorum: int = 2
    digest: DigestType = DigestType.CRC32C
    tls: ClusterTls = field(default_factory=ClusterTls)

    @classmethod
    def parse(cls, rest: str) -> Self:
        """Parse what stands after ``bookkeeper:``.

        Raises:
            InvalidInput: it is no such URL; or a key is unknown, given twice, or has a value out of range.
        """
        text = f"bookkeeper:{rest}"
        parts = urlsplit(rest)
        path = parts.path.rstrip("/")
        if parts.scheme != "zk" or not parts.netloc or not path or parts.fragment or "@" in parts.netloc:
            raise InvalidInput(
                _FIELD, text, "write bookkeeper:zk://HOST:PORT[,HOST:PORT]/ledgers?root=/NODE, without user or #"
            )
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        given = dict(pairs)
        for key, _ in pairs:
            if key.lower().startswith("sasl"):
                raise InvalidInput(_FIELD, text, f"{key}: SASL is not supported; use mutual TLS")
            if key not in _KEYS:
                raise InvalidInput(_FIELD, text, f"{key!r} is none of {', '.join(_KEYS)}")
        if len(given) < len(pairs):
            raise InvalidInput(_FIELD, text, "give each key once")
        ensemble, write_quorum, ack_quorum = _quorums(text, given)
        return cls(
            text,
            parts.netloc,
            path,
            _node(text, "root", given.get("root", DEFAULT_ROOT)),
            ensemble,
            write_quorum,
            ack_quorum,
            _one_of(text, "digest", given.get("digest", "crc32c").lower(), _DIGESTS),
            ClusterTls.parse(_FIELD, text, given),
        )

    @property
    def cluster(self) -> tuple[str | ClusterTls, ...]:
        """All that a client connects by: URLs in which it is equal can share one."""
        return (self.zookeeper, self.ledgers, self.tls)

    def bookie_tls(self) -> ssl.SSLContext | None:
        """Return the context for TLS to bookies; None if that is in the clear.

        Raises:
            InvalidInput: a file cannot be read, or is no PEM.
        """
        return self.tls.of_bookies(_FIELD, self.text)


def _quorums(text: str, given: dict[str, str]) -> tuple[int, int, int]:
    ensemble, write_quorum, ack_quorum = (_count(text, key, given.get(key, "2")) for key in _QUORUMS)
    if not ack_quorum <= write_quorum <= ensemble:
        raise InvalidInput(
            _FIELD,
            text,
            f"ackQuorum {ack_quorum}, writeQuorum {write_quorum} and ensemble {ensemble} must ascend",
        )
    return ensemble, write_quorum, ack_quorum


def _count(text: str, key: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value[:9]) <= 100:
        raise InvalidInput(_FIELD, text, f"{key} is a number of bookies from 1 to 100, not {value!r}")
    return int(value)


def _node(text: str, key: str, value: str) -> str:
    names = value.strip("/").split("/")
    if not value.startswith("/") or not all(names) or any(name in (".", "..") for name in names):
        raise InvalidInput(_FIELD, text, f"{key} is the path of a node such as {DEFAULT_ROOT}, not {value!r}")
    return f"/{'/'.join(names)}"


def _one_of(text: str, key: str, value: str, known: Mapping[str, T]) -> T:
    if value not in known:
        raise InvalidInput(_FIELD, text, f"{key} is one of {', '.join(known)}, not {value!r}")
    return known[value]
