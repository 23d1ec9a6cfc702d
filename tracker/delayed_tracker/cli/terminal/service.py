"""Options of the commands that talk to a running service: its address, TLS, and the token.

A command takes one ``service: Service``; :func:`of_service` declares the options in its place.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Self

import typer

from delayed_tracker.cli.terminal.grouped_options import in_place_of
from delayed_tracker.cli.terminal.options import VARIABLE_OF_OPTION, reject_tilde_path
from delayed_tracker.client import (
    ClientCredentials,
    ClientSettings,
    DelayedTrackerClient,
    TlsCredentials,
    TokenFile,
    blocking,
)

DEFAULT_SERVER: Final = "127.0.0.1:7650"
TLS_SCHEME: Final = "tls://"


@dataclass(frozen=True, slots=True)
class Service:
    """Address of a service, and the credentials for it."""

    address: str
    credentials: ClientCredentials

    @classmethod
    def at(cls, address: str, credentials: ClientCredentials) -> Self:
        """Return the service of an address as users write it: ``HOST:PORT``, with ``tls://`` before it to demand TLS."""
        if address.startswith(TLS_SCHEME) and credentials.tls is None:
            credentials = replace(credentials, tls=TlsCredentials())
        return cls(address.removeprefix(TLS_SCHEME), credentials)

    def connect(self, *, settings: ClientSettings | None = None) -> DelayedTrackerClient:
        """Return a client to be entered."""
        return DelayedTrackerClient.connect(self.address, settings=settings, credentials=self.credentials)

    def connect_blocking(self) -> blocking.DelayedTrackerClient:
        """Return a client without an event loop, to be entered."""
        return blocking.DelayedTrackerClient.connect(self.address, credentials=self.credentials)


def _file(option: str, help_: str) -> Any:
    return typer.Option(
        option, envvar=VARIABLE_OF_OPTION[option], help=help_, metavar="FILE", callback=reject_tilde_path
    )


Server = Annotated[
    str,
    typer.Option(
        "--server",
        envvar=VARIABLE_OF_OPTION["--server"],
        help="Address of the running service; tls://HOST:PORT demands TLS.",
        metavar="HOST:PORT",
    ),
]
TlsCa = Annotated[
    Path | None,
    _file("--tls-ca", "Certificates (PEM) of the authorities that sign the service's; connects with TLS."),
]
TlsCert = Annotated[Path | None, _file("--tls-cert", "The client's certificate (PEM); connects with TLS.")]
TlsKey = Annotated[Path | None, _file("--tls-key", "Private key (PEM) of --tls-cert.")]
TokenFromFile = Annotated[
    Path | None, _file("--token-file", "File with the token to show to the service, read again when it changes.")
]
TokenOverPlain = Annotated[
    bool,
    typer.Option(
        "--token-over-plain",
        envvar=VARIABLE_OF_OPTION["--token-over-plain"],
        help="Send the token to another machine without TLS, where everybody on the way can read it.",
    ),
]


def of_service(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a service in place of its parameter ``service``."""

    def with_server(*, server: Server = DEFAULT_SERVER, credentials: ClientCredentials, **others: Any) -> None:
        command(service=Service.at(server, credentials), **others)

    return with_credentials(in_place_of("service", with_server, command))


def with_credentials(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of credentials in place of ``credentials``; it has an option of its own for the address."""

    def with_options(
        *,
        tls_ca: TlsCa = None,
        tls_cert: TlsCert = None,
        tls_key: TlsKey = None,
        token_file: TokenFromFile = None,
        token_over_plain: TokenOverPlain = False,
        **others: Any,
    ) -> None:
        is_tls = any(path is not None for path in (tls_ca, tls_cert, tls_key))
        credentials = ClientCredentials(
            tls=TlsCredentials(ca=tls_ca, certificate=tls_cert, key=tls_key) if is_tls else None,
            token=None if token_file is None else TokenFile(token_file),
            token_over_plain=token_over_plain,
        )
        command(credentials=credentials, **others)

    return in_place_of("credentials", with_options, command)
