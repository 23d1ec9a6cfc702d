"""Listen addresses as settings and command lines give them: HOST:PORT."""

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
