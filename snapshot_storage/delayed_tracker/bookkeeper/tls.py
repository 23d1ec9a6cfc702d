"""TLS to ZooKeeper and to bookies, as the options of a URL give it.

tls                       connections that use TLS: none (default), bookies, zookeeper or all
tlsCa                     certificates of the authorities, as PEM
tlsCertificate, tlsKey    certificate and key of this client, together
tlsHostnameVerification   true (default) or false
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from delayed_tracker.core.values.errors import InvalidInput

TLS_KEYS: Final = ("tls", "tlsCa", "tlsCertificate", "tlsKey", "tlsHostnameVerification")
_FILES: Final = ("tlsCa", "tlsCertificate", "tlsKey")
_SIDES: Final = ("none", "bookies", "zookeeper", "all")
_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class ZooKeeperTls:
    """Files for TLS to ZooKeeper, all PEM."""

    ca: str
    """Certificates of the authorities that signed the servers' certificates."""
    certificate: str | None = None
    """This client's own, if the servers ask for one."""
    key: str | None = None
    check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class ClusterTls:
    """Connections of a client that use TLS, and the files for them. Nothing is read before a context is made."""

    sides: str = "none"
    """``none``, ``bookies``, ``zookeeper`` or ``all``."""
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    check_hostname: bool = True

    @classmethod
    def parse(cls, field: str, text: str, given: Mapping[str, str]) -> Self:
        """Take the options of :data:`TLS_KEYS` from those of a URL.

        Args:
            field: of the URL, for messages.
            text: the URL, for messages.
            given: all options by name; others are ignored.
        Raises:
            InvalidInput: a value is unknown, or options do not go together.
        """
        sides = given.get("tls", "none")
        if sides not in _SIDES:
            raise InvalidInput(field, text, f"tls is one of {', '.join(_SIDES)}")
        if sides == "none" and any(key in given for key in _FILES):
            raise InvalidInput(field, text, f"add tls={'|'.join(_SIDES[1:])}, or leave the files out")
        if sides != "none" and "tlsCa" not in given:
            raise InvalidInput(field, text, "give tlsCa=FILE, the authorities' certificates as PEM")
        if ("tlsKey" in given) != ("tlsCertificate" in given):
            raise InvalidInput(field, text, "tlsCertificate and tlsKey belong together")
        verification = given.get("tlsHostnameVerification", "true")
        if verification not in _BOOLEANS:
            raise InvalidInput(field, text, f"tlsHostnameVerification is one of true, false, not {verification!r}")
        ca, certificate, key = map(given.get, _FILES)
        return cls(sides, ca, certificate, key, _BOOLEANS[verification])

    def of_zookeeper(self) -> ZooKeeperTls | None:
        """Return the files for TLS to ZooKeeper; None if that is in the clear."""
        if self.sides not in ("zookeeper", "all") or self.ca is None:
            return None
        return ZooKeeperTls(self.ca, self.certificate, self.key, self.check_hostname)

    def of_bookies(self, field: str, text: str) -> ssl.SSLContext | None:
        """Return the context for TLS to bookies; None if that is in the clear.

        Args:
            field: of the URL, for messages.
            text: the URL, for messages.
        Raises:
            InvalidInput: a file cannot be read, or is no PEM.
        """
        if self.sides not in ("bookies", "all"):
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise InvalidInput(field, text, f"the TLS files cannot be used: {error}") from error
        context.check_hostname = self.check_hostname
        return context
