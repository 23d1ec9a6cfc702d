"""Parses ``bookkeeper:zk://HOST:PORT[,HOST:PORT]/LEDGERS?root=…`` into what client and storage need."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self, TypeVar
from urllib.parse import parse_qsl, urlsplit

from delayed_tracker.bookkeeper.metadata.zookeeper import ZooKeeperTls
from delayed_tracker.bookkeeper.wire.digest import DigestType
from delayed_tracker.core.values.errors import InvalidInput

DEFAULT_ROOT: Final = "/delayed-tracker"
T = TypeVar("T")

_BOOLEANS: Final = {"true": True, "false": False}
_DIGESTS: Final = {kind.name.lower(): kind for kind in DigestType}
_TLS_SIDES: Final = ("none", "bookies", "zookeeper", "all")
_QUORUMS: Final = ("ensemble", "writeQuorum", "ackQuorum")
_TLS_FILES: Final = ("tlsCa", "tlsCertificate", "tlsKey")
_KEYS: Final = ("root", *_QUORUMS, "digest", "tls", *_TLS_FILES, "tlsHostnameVerification")


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
    tls: str = "none"
    """Connections that use TLS: ``none``, ``bookies``, ``zookeeper`` or ``all``."""
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_check_hostname: bool = True

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
                "storage URL", text, "write bookkeeper:zk://HOST:PORT[,HOST:PORT]/ledgers?root=/NODE, without user or #"
            )
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        given = dict(pairs)
        for key, _ in pairs:
            if key.lower().startswith("sasl"):
                raise InvalidInput("storage URL", text, f"{key}: SASL is not supported; use mutual TLS")
            if key not in _KEYS:
                raise InvalidInput("storage URL", text, f"{key!r} is none of {', '.join(_KEYS)}")
        if len(given) < len(pairs):
            raise InvalidInput("storage URL", text, "give each key once")
        ensemble, write_quorum, ack_quorum = _quorums(text, given)
        tls = given.get("tls", "none")
        if tls not in _TLS_SIDES:
            raise InvalidInput("storage URL", text, f"tls is one of {', '.join(_TLS_SIDES)}")
        if tls == "none" and any(key in given for key in _TLS_FILES):
            raise InvalidInput("storage URL", text, f"add tls={'|'.join(_TLS_SIDES[1:])}, or leave the files out")
        if tls != "none" and "tlsCa" not in given:
            raise InvalidInput("storage URL", text, "give tlsCa=FILE, the authorities' certificates as PEM")
        if ("tlsKey" in given) != ("tlsCertificate" in given):
            raise InvalidInput("storage URL", text, "tlsCertificate and tlsKey belong together")
        return cls(
            text,
            parts.netloc,
            path,
            _node(text, "root", given.get("root", DEFAULT_ROOT)),
            ensemble,
            write_quorum,
            ack_quorum,
            _one_of(text, "digest", given.get("digest", "crc32c").lower(), _DIGESTS),
            tls,
            given.get("tlsCa"),
            given.get("tlsCertificate"),
            given.get("tlsKey"),
            _one_of(text, "tlsHostnameVerification", given.get("tlsHostnameVerification", "true"), _BOOLEANS),
        )

    @property
    def cluster(self) -> tuple[str | bool | None, ...]:
        """All that a client connects by: URLs in which it is equal can share one."""
        files = (self.tls_ca, self.tls_certificate, self.tls_key)
        return (self.zookeeper, self.ledgers, self.tls, *files, self.tls_check_hostname)

    def zookeeper_tls(self) -> ZooKeeperTls | None:
        """Return the files for TLS to ZooKeeper; None if that is in the clear."""
        if self.tls not in ("zookeeper", "all") or self.tls_ca is None:
            return None
        return ZooKeeperTls(self.tls_ca, self.tls_certificate, self.tls_key, self.tls_check_hostname)

    def bookie_tls(self) -> ssl.SSLContext | None:
        """Return the context for TLS to bookies; None if that is in the clear.

        Raises:
            InvalidInput: a file cannot be read, or is no PEM.
        """
        if self.tls not in ("bookies", "all"):
            return None
        try:
            context = ssl.create_default_context(cafile=self.tls_ca)
            if self.tls_certificate is not None:
                context.load_cert_chain(self.tls_certificate, self.tls_key)
        except (OSError, ssl.SSLError) as error:
            raise InvalidInput("storage URL", self.text, f"the TLS files cannot be used: {error}") from error
        context.check_hostname = self.tls_check_hostname
        return context


def _quorums(text: str, given: dict[str, str]) -> tuple[int, int, int]:
    ensemble, write_quorum, ack_quorum = (_count(text, key, given.get(key, "2")) for key in _QUORUMS)
    if not ack_quorum <= write_quorum <= ensemble:
        raise InvalidInput(
            "storage URL",
            text,
            f"ackQuorum {ack_quorum}, writeQuorum {write_quorum} and ensemble {ensemble} must ascend",
        )
    return ensemble, write_quorum, ack_quorum


def _count(text: str, key: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value[:9]) <= 100:
        raise InvalidInput("storage URL", text, f"{key} is a number of bookies from 1 to 100, not {value!r}")
    return int(value)


def _node(text: str, key: str, value: str) -> str:
    names = value.strip("/").split("/")
    if not value.startswith("/") or not all(names) or any(name in (".", "..") for name in names):
        raise InvalidInput("storage URL", text, f"{key} is the path of a node such as {DEFAULT_ROOT}, not {value!r}")
    return f"/{'/'.join(names)}"


def _one_of(text: str, key: str, value: str, known: Mapping[str, T]) -> T:
    if value not in known:
        raise InvalidInput("storage URL", text, f"{key} is one of {', '.join(known)}, not {value!r}")
    return known[value]
