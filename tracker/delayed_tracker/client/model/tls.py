"""Certificates of a client: read, checked, and made a credential of a channel.

TLS is gRPC's own, of version 1.2 and up. The standard library checks the files, because gRPC would connect with unusable
ones and then report a lost connection.
"""

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import grpc

from delayed_tracker.core.values.errors import InvalidInput

PEM_BYTES_MAX: Final = 1_024 * 1_024
"""Largest file of certificates, or key, in bytes."""
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_KEY: Final = b"PRIVATE KEY-----"

PemSource: TypeAlias = bytes | str | os.PathLike[str]
"""PEM itself as bytes, or the path of a file with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsCredentials:
    """Certificates of a connection, in PEM. They are read when a client connects; connect again to use others.

    Args:
        ca: certificates of the authorities that sign the service's certificate; None trusts those that gRPC trusts.
        certificate: the client's own certificate, followed by its intermediate ones; None shows none.
        key: private key of ``certificate``, without a password.
    """

    ca: PemSource | None = field(default=None, repr=False)
    certificate: PemSource | None = field(default=None, repr=False)
    key: PemSource | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse a certificate without its key, and the other way round; raises InvalidInput."""
        for name in ("ca", "certificate", "key"):
            source = getattr(self, name)
            if source is not None and not isinstance(source, bytes | str | os.PathLike):
                raise InvalidInput(f"tls.{name}", type(source), "give PEM as bytes, or the path of a file")
        if (self.certificate is None) != (self.key is None):
            missing = "key" if self.key is None else "certificate"
            raise InvalidInput(f"tls.{missing}", None, "give a certificate and its key together, or neither")


def channel_credentials(tls: TlsCredentials) -> grpc.ChannelCredentials:
    """Read the certificates and return them as a credential of a channel.

    Raises:
        InvalidInput: a file cannot be read, is too large, is no PEM, or the key is not that of the certificate.
    """
    verifying_context(tls)
    ca = _pem("ca", tls.ca, _CERTIFICATE)
    return grpc.ssl_channel_credentials(
        root_certificates=ca,
        private_key=_pem("key", tls.key, _KEY),
        certificate_chain=_pem("certificate", tls.certificate, _CERTIFICATE),
    )


def verifying_context(tls: TlsCredentials) -> ssl.SSLContext:
    """Return a context of the standard library with the same certificates.

    A certificate and key that are not both in files are left out, as the standard library takes them from files only.

    Raises:
        InvalidInput: as for :func:`channel_credentials`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    ca = _pem("ca", tls.ca, _CERTIFICATE)
    if ca is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cadata=ca.decode("ascii", "replace"))
        except ssl.SSLError as error:
            raise InvalidInput("tls.ca", _shown(tls.ca), f"{_why(error)}; give certificates in PEM") from error
    _pem("certificate", tls.certificate, _CERTIFICATE)
    _pem("key", tls.key, _KEY)
    if isinstance(tls.certificate, str | os.PathLike) and isinstance(tls.key, str | os.PathLike):
        try:
            # A password keeps OpenSSL from asking for one on the terminal.
            context.load_cert_chain(tls.certificate, tls.key, password="")
        except ssl.SSLError as error:
            remedy = f"{_why(error)}; give the key of the certificate {_shown(tls.certificate)!r}, without a password"
            raise InvalidInput("tls.key", _shown(tls.key), remedy) from error
    return context


def _pem(name: str, source: PemSource | None, marker: bytes) -> bytes | None:
    if source is None:
        return None
    field = f"tls.{name}"
    if isinstance(source, bytes):
        content = source
    else:
        try:
            with Path(source).open("rb") as file:
                content = file.read(PEM_BYTES_MAX + 1)
        except OSError as error:
            raise InvalidInput(field, _shown(source), f"{error.strerror}; give a file that can be read") from error
    if len(content) > PEM_BYTES_MAX:
        raise InvalidInput(field, _shown(source), f"it has more than {PEM_BYTES_MAX} bytes; give PEM alone")
    if marker not in content:
        what = "certificate" if marker is _CERTIFICATE else "private key"
        raise InvalidInput(field, _shown(source), f"it contains no {what}; give PEM")
    return content


def _shown(source: PemSource | None) -> str | None:
    """Return the form of a source in errors: its path, never its content."""
    if isinstance(source, bytes):
        return f"({len(source)} bytes)"
    return None if source is None else str(source)


def _why(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
