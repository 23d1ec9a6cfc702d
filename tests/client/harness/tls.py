"""Uses of the tests' certificates: servers that show them, and files with them."""

from pathlib import Path

import grpc
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tests.service.security.certificates import Authority, Certificate


def server_credentials(
    authority: Authority, certificate: Certificate | None = None, *, mutual: bool = False
) -> grpc.ServerCredentials:
    """Return credentials of a server; ``mutual`` demands a client's certificate of this authority."""
    shown = certificate or authority.issue("tracker")
    return grpc.ssl_server_credentials(
        [(shown.key, shown.certificate)],
        root_certificates=authority.certificate if mutual else None,
        require_client_auth=mutual,
    )


def written(issued: Certificate, directory: Path) -> tuple[Path, Path]:
    """Write certificate and key; return their paths."""
    paths = directory / "own.crt", directory / "own.key"
    for path, content in zip(paths, (issued.certificate, issued.key), strict=True):
        path.write_bytes(content)
    return paths


def encrypted_key(issued: Certificate) -> bytes:
    """Return the key, encrypted with a password."""
    key = load_pem_private_key(issued.key, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password"))
