"""Certificates made for the tests: an authority, and what it signs."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """Certificate and key, in PEM."""

    certificate: bytes
    key: bytes

    def written(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Write both and return their paths."""
        paths = directory / f"{name}.crt", directory / f"{name}.key"
        for path, content in zip(paths, (self.certificate, self.key), strict=True):
            path.write_bytes(content)
        return paths

    def encrypted_key(self) -> bytes:
        """Return the key encrypted with a password."""
        key = load_pem_private_key(self.key, None)
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password"))


class Authority:
    """Authority that signs certificates."""

    def __init__(self, name: str = "tests") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        made = _builder(self._name, self._name, self._key.public_key(), DAY)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.certificate = made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def issue(self, name: str, *, hosts: tuple[str, ...] = ("127.0.0.1",), left: dt.timedelta = DAY) -> Issued:
        """Return a certificate whose CN is the name, of a server on the hosts, or of a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts_named = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host)) for host in hosts])
        made = _builder(_named(name), self._name, key.public_key(), left).add_extension(hosts_named, critical=False)
        return Issued(
            made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM),
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        )

    def server(self, issued: Issued, *, mutual: bool = False) -> grpc.ServerCredentials:
        """Return credentials of a server; ``mutual`` demands a client's certificate of this authority."""
        return grpc.ssl_server_credentials(
            [(issued.key, issued.certificate)],
            root_certificates=self.certificate if mutual else None,
            require_client_auth=mutual,
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, left: dt.timedelta
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * DAY)
        .not_valid_after(now + left)
    )
