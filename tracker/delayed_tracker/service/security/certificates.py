"""The certificate of the service, for gRPC and HTTP, read again when its files change.

New connections get the newest certificate; those that are open keep theirs. Files that cannot be used leave the last good
certificate in force, and an error is logged at each look until they can.
"""

import asyncio
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

import grpc
import structlog

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.whole_file import read_whole
from delayed_tracker.service.clock import Clock, pause
from delayed_tracker.service.instruments.security_counts import SecurityCounts
from delayed_tracker.service.security.file_watch import FileWatch
from delayed_tracker.service.settings.address import Transport
from delayed_tracker.service.settings.tls import TlsSettings

FILE_BYTES_MAX: Final = 2**20
"""A longer file is refused."""
_EXPIRY_WARNING_S: Final = 7 * 86_400
_log = structlog.stdlib.get_logger("delayed_tracker.security")


@dataclass(frozen=True, slots=True, repr=False)
class Certificate:
    """Contents of the files at one time. It has no representation, so that no log shows the key."""

    chain: bytes
    key: bytes
    trusted: bytes | None
    """Certificates of the authorities that sign clients; None without mutual TLS."""
    ends: datetime
    context: ssl.SSLContext
    """For HTTP connections with ``tls://``."""
    mutual_context: ssl.SSLContext | None
    """For those with ``mtls://``; None without trusted authorities."""

    @classmethod
    def load(cls, settings: TlsSettings) -> Self:
        """Read and check the files. Blocks.

        Raises:
            InvalidInput: a file cannot be read, is too long or no PEM, the key is of another certificate, or a file was
                replaced meanwhile.
        """
        chain = _read("tlsCertificateFilePath", settings.certificate_file_path)
        key = _read("tlsKeyFilePath", settings.key_file_path)
        path = settings.trust_certs_file_path
        trusted = _read("tlsTrustCertsFilePath", path) if path else None
        try:
            from cryptography import x509  # noqa: PLC0415  # a tenth of a second, for services with TLS alone

            ends = x509.load_pem_x509_certificates(chain)[0].not_valid_after_utc
        except ValueError as error:
            raise InvalidInput(
                "tlsCertificateFilePath", settings.certificate_file_path, "give certificates as PEM"
            ) from error
        context = _context(settings)
        mutual = None
        if trusted is not None:
            mutual = _context(settings)
            mutual.verify_mode = ssl.CERT_REQUIRED
            try:
                mutual.load_verify_locations(cadata=trusted.decode("ascii"))
            except (ValueError, ssl.SSLError) as error:
                raise InvalidInput("tlsTrustCertsFilePath", path, "give certificates of authorities as PEM") from error
        # The contexts read the files by themselves: gRPC must not get a pair that they did not check.
        if (chain, key) != (
            _read("tlsCertificateFilePath", settings.certificate_file_path),
            _read("tlsKeyFilePath", settings.key_file_path),
        ):
            raise InvalidInput("tlsCertificateFilePath", settings.certificate_file_path, "it changes now: try again")
        return cls(chain, key, trusted, ends, context, mutual)


class Certificates:
    """The certificate in force.

    Args:
        settings: the files.
        clock: of the service.
        counts: of reloads, and the end of the certificate.

    Raises:
        InvalidInput: a file is unusable. Blocks, so it is made in a thread.
    """

    def __init__(self, settings: TlsSettings, clock: Clock, counts: SecurityCounts) -> None:
        self._settings = settings
        self._clock = clock
        self._counts = counts
        paths = (settings.certificate_file_path, settings.key_file_path, settings.trust_certs_file_path)
        self._watch = FileWatch(Path(path) for path in paths if path)
        self._watch.changed()
        self._is_broken = False
        self._now = Certificate.load(settings)
        self._note_end()

    def context(self, transport: Transport) -> ssl.SSLContext | None:
        """Return what a new HTTP connection is secured with; None for one in plain text."""
        return {
            Transport.PLAIN: None,
            Transport.TLS: self._now.context,
            Transport.MTLS: self._now.mutual_context,
        }[transport]

    def grpc_credentials(self, transport: Transport) -> grpc.ServerCredentials:
        """Return credentials of an address with ``tls://`` or ``mtls://``; gRPC asks them at each new connection."""
        is_mutual = transport is Transport.MTLS

        def configuration(certificate: Certificate) -> grpc.ServerCertificateConfiguration:
            pairs = [(certificate.key, certificate.chain)]
            return grpc.ssl_server_certificate_configuration(pairs, certificate.trusted if is_mutual else None)

        given = self._now

        def newest() -> grpc.ServerCertificateConfiguration | None:
            nonlocal given
            if given is self._now:
                return None
            given = self._now
            return configuration(given)

        return grpc.dynamic_ssl_server_credentials(
            configuration(given),
            newest,  # type: ignore[arg-type]  # the stubs do not know None, which keeps the present one
            require_client_authentication=is_mutual,
        )

    async def run(self) -> None:
        """Read the files again when they change, until cancelled."""
        while True:
            await pause(self._clock, self._settings.refresh_seconds * 1_000)
            await asyncio.to_thread(self.refresh)

    def refresh(self) -> None:
        """Read the files if they have changed, or were unusable at the last look. Blocks."""
        # Also where files are replaced one by one, so that key and certificate do not belong together for a moment.
        if not self._watch.changed() and not self._is_broken:
            return
        try:
            self._now = Certificate.load(self._settings)
        except InvalidInput as error:
            self._is_broken = True
            self._counts.not_reloaded("certificate")
            _log.error("not reloaded, the old ones stay in force", kept="TLS certificate", problem=error.message)
            return
        self._is_broken = False
        self._counts.reloaded("certificate")
        _log.info("TLS certificate reloaded", ends=self._now.ends.isoformat())
        self._note_end()

    def _note_end(self) -> None:
        self._counts.certificate_ends_s = self._now.ends.timestamp()
        remaining_s = (self._now.ends - datetime.fromtimestamp(self._clock.now_ms() / 1_000, UTC)).total_seconds()
        if remaining_s < _EXPIRY_WARNING_S:
            _log.warning("the TLS certificate ends soon", ends=self._now.ends.isoformat())


def _read(key: str, path: str) -> bytes:
    try:
        return read_whole(path, FILE_BYTES_MAX)
    except OSError as error:
        raise InvalidInput(key, path, f"{error.strerror}; name a file that the service can read") from error


def _context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Without a callback, OpenSSL would ask for the password at the terminal.
        context.load_cert_chain(settings.certificate_file_path, settings.key_file_path, password=lambda: b"")
    except (OSError, ValueError) as error:
        remedy = "give the key of tlsCertificateFilePath as PEM, without a password"
        raise InvalidInput("tlsKeyFilePath", settings.key_file_path, remedy) from error
    return context
