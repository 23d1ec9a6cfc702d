"""Finds out why no connection came about, when client and service do not agree on TLS.

gRPC reports a lost connection in all of these cases. A short connection of the standard library tells them apart: plain
against TLS, a certificate that is not accepted, or one that is missing.
"""

import socket
import ssl
from typing import Final

from delayed_tracker.client.model.channel import host_and_port
from delayed_tracker.client.model.tls import TlsCredentials, verifying_context

TIMEOUT_S: Final = 2.0
"""Longest wait for each answer, in seconds; there are at most three."""
_HTTP2_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_FRAME_HEADER_BYTES: Final = 9
_SETTINGS: Final = 4
"""Type of the frame that begins every HTTP/2 connection."""


def tls_fault(address: str, tls: TlsCredentials | None) -> str | None:
    """Return the fault and its remedy; None if TLS is not the reason, or if the address cannot be tried.

    Blocks for a few seconds at most.

    Args:
        address: of the service, as for a client.
        tls: the client's certificates; None if it connects without encryption.
    """
    place = host_and_port(address)
    if place is None:
        return None
    if tls is None:
        if not _speaks_tls(place):
            return None
        return (
            f"the service at {address} speaks TLS, and this client does not: give the CA of its certificate (--tls-ca)"
        )
    fault = _handshake_fault(place, tls)
    if fault is None:
        return None
    if _speaks_plain(place):
        return (
            f"the service at {address} speaks plain gRPC, and this client TLS: leave out TLS (tls:// in the address,"
            " --tls-ca, --tls-cert), or give its address for TLS"
        )
    return f"no TLS connection to the service at {address}: {fault}"


def _speaks_tls(place: tuple[str, int]) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Nothing is sent here, so the service may be anybody.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with socket.create_connection(place, TIMEOUT_S) as plain, context.wrap_socket(plain):
            return True
    except ssl.SSLError as error:
        return _is_alert(error)
    except OSError:
        return False


def _speaks_plain(place: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(place, TIMEOUT_S) as plain:
            plain.settimeout(TIMEOUT_S)
            plain.sendall(_HTTP2_PREFACE)
            header = plain.recv(_FRAME_HEADER_BYTES, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(header) == _FRAME_HEADER_BYTES and header[3] == _SETTINGS


def _handshake_fault(place: tuple[str, int], tls: TlsCredentials) -> str | None:
    context = verifying_context(tls)
    try:
        with (
            socket.create_connection(place, TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=place[0]) as secure,
        ):
            return _refusal(secure, has_certificate=tls.certificate is not None)
    except ssl.SSLCertVerificationError as error:
        return (
            f"its certificate is not accepted ({error.verify_message}); give the CA that signed it (--tls-ca), and a name "
            "that it has"
        )
    except ssl.SSLError as error:
        if _is_alert(error):
            return _certificate_refused(_said(error), has_certificate=tls.certificate is not None)
        return f"the handshake failed ({_said(error)})"
    except OSError:
        return None


def _refusal(secure: ssl.SSLSocket, *, has_certificate: bool) -> str | None:
    """Return the service's refusal of the client's certificate, which with TLS 1.3 follows the handshake."""
    try:
        answer = secure.recv(1)
    except ssl.SSLError as error:
        return _certificate_refused(_said(error), has_certificate=has_certificate)
    except TimeoutError:
        return None
    except OSError as error:
        return _certificate_refused(error.strerror or "no reason", has_certificate=has_certificate)
    # gRPC ends the connection without an alert, and otherwise speaks first.
    return None if answer else _certificate_refused("connection closed", has_certificate=has_certificate)


def _certificate_refused(said: str, *, has_certificate: bool) -> str:
    if not has_certificate:
        return f"it demands a client certificate ({said}); give one with its key (--tls-cert, --tls-key)"
    return f"it does not accept the client's certificate ({said}); give one that its CA signed and that is not expired"


def _said(error: ssl.SSLError) -> str:
    return (error.reason or "no reason").replace("_", " ").lower()


def _is_alert(error: ssl.SSLError) -> bool:
    return "ALERT" in (error.reason or "")
