"""Listen addresses as settings give them: HOST:PORT, tls://HOST:PORT or mtls://HOST:PORT, several divided by commas."""

import enum
import ipaddress
import re
from dataclasses import dataclass
from typing import Final

PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class Address:
    """Address to listen on. An IPv6 host is written in brackets; port 0 lets the system choose."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse ``host:port``.

        Raises:
            ValueError: the text is not of that form, or the port is above 65535.
        """
        host, colon, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        bare = host[1:-1] if bracketed else host
        if not colon or not bare or (":" in bare) != bracketed or not re.fullmatch(r"[0-9]{1,5}", port):
            raise ValueError(text)
        if int(port) > PORT_MAX or re.search(r"[\s\[\]]", bare):
            raise ValueError(text)
        return cls(bare, int(port))

    @property
    def is_loopback(self) -> bool:
        """True if only processes of this machine can connect; False for a host name other than localhost."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Transport(enum.Enum):
    """Protection of the connections to an address; the value is what stands before ``://``."""

    PLAIN = ""
    TLS = "tls"
    MTLS = "mtls"
    """TLS, and the client must have a certificate of a trusted authority."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Address to listen on, and the protection of its connections."""

    address: Address
    transport: Transport = Transport.PLAIN

    @classmethod
    def parse(cls, text: str) -> "ListenAddress":
        """Parse ``host:port``, ``tls://host:port`` or ``mtls://host:port``.

        Raises:
            ValueError: the text is not of that form, or the port is above 65535.
        """
        scheme, separator, rest = text.partition("://")
        if not separator:
            return cls(Address.parse(text))
        if scheme not in (Transport.TLS.value, Transport.MTLS.value):
            raise ValueError(text)
        return cls(Address.parse(rest), Transport(scheme))

    @property
    def is_secured(self) -> bool:
        """True if connections are encrypted."""
        return self.transport is not Transport.PLAIN

    def at(self, address: Address) -> "ListenAddress":
        """Return the same protection at the address that was bound."""
        return ListenAddress(address, self.transport)

    def __str__(self) -> str:
        return f"{self.transport.value}://{self.address}" if self.is_secured else str(self.address)


def parse_addresses(text: str) -> tuple[ListenAddress, ...]:
    """Parse addresses divided by commas; empty text has none.

    Raises:
        ValueError: one is malformed, or is there twice.
    """
    found = tuple(ListenAddress.parse(part.strip()) for part in text.split(",")) if text else ()
    if len({each.address for each in found if each.address.port}) < sum(each.address.port > 0 for each in found):
        raise ValueError(text)
    return found
