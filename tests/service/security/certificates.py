"""Certificates for tests: an authority, and what it signs."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Write both as NAME.pem and NAME.key; return the paths."""
        paths = directory / f"{name}.pem", directory / f"{name}.key"
        for path, content in zip(paths, (self.certificate, self.key), strict=True):
            path.write_bytes(content)
        return paths


class Authority:
    """Signs certificates."""

    def __init__(self, name: str = "an authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        built = self._builder(self._name, self._key, -DAY, 2 * DAY)
        built = built.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.certificate = built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def sign(self, name: str, *, starts: timedelta = -DAY, ends: timedelta = DAY) -> Pair:
        """Return a certificate for a client of this name, or for a server at 127.0.0.1 and localhost.

        Args:
            name: CN.
            starts: from now.
            ends: from now.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        built = self._builder(subject, key, starts, ends)
        signed = built.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(
            self._key, hashes.SHA256()
        )
        encoded = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Pair(signed.public_bytes(serialization.Encoding.PEM), encoded)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, starts: timedelta, ends: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + starts)
            .not_valid_after(now + ends)
        )
