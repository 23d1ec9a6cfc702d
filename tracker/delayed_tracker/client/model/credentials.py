"""Credentials of a client: TLS, and a token that goes with every call.

A certificate is read when the client connects. A token is asked for at each call, so that a long-lived program goes on
when its token is replaced. No secret is part of a representation, an error or a log line.
"""

import ipaddress
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from delayed_tracker.client.errors import Unauthenticated
from delayed_tracker.client.model.bounds import flag, require_type
from delayed_tracker.client.model.channel import host_and_port, is_socket_file
from delayed_tracker.client.model.tls import TlsCredentials
from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput

TOKEN_BYTES_MAX: Final = 8 * 1_024
"""Longest token in bytes: half of the metadata that a call may carry."""
_TOKEN_REMEDY: Final = (
    f"a token is 1 to {TOKEN_BYTES_MAX} visible ASCII characters; give the token alone, without 'Bearer'"
)

Metadata: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TokenFile:
    """File with a token, read again when it changes. White space around the token is ignored.

    Replace the file by renaming another one, or a call may read half of it: such a call is refused, and then repeated
    with what the file contains by then.
    """

    path: str | os.PathLike[str]


TokenSource: TypeAlias = str | TokenFile | Callable[[], str]
"""The token itself, a file, or a function that is called before each call and must return at once.

What the function raises, the call raises. Threads of the blocking client call it at the same time.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """Proof of the client for the service, and demands on the service's own.

    Args:
        tls: certificates; None connects without encryption.
        token: sent as ``authorization: Bearer TOKEN``; None sends none.
        token_over_plain: True permits to send the token to another machine without encryption, where everybody on the
            way can read and use it.
    """

    tls: TlsCredentials | None = None
    token: TokenSource | None = field(default=None, repr=False)
    token_over_plain: bool = False

    def __post_init__(self) -> None:
        """Refuse credentials that no client can use; raises InvalidInput."""
        if self.tls is not None:
            require_type("tls", self.tls, TlsCredentials, "give TlsCredentials, or None to connect without encryption")
        flag("token_over_plain", self.token_over_plain)
        if isinstance(self.token, str):
            _require_token(self.token)
        elif not (self.token is None or isinstance(self.token, TokenFile) or callable(self.token)):
            raise InvalidInput(
                "token", _NotShown(), "give the token, a TokenFile, or a function that returns the token"
            )

    def require_private(self, address: str) -> None:
        """Refuse to send a token to another machine without encryption.

        Raises:
            InvalidInput: the address is not of this machine, and neither TLS nor ``token_over_plain`` is set.
        """
        if self.token is None or self.tls is not None or self.token_over_plain or _is_local(address):
            return
        raise InvalidInput(
            "address",
            address,
            "a token is not sent to another machine without encryption; use TLS, or permit it (--token-over-plain)",
        )


NO_CREDENTIALS: Final = ClientCredentials()


class BearerTokens:
    """Metadata with the token, for one call after the other. Any thread may ask.

    Args:
        source: of the token; None sends none.
    Raises:
        InvalidInput: the token's file cannot be read, or has no token.
    """

    def __init__(self, source: TokenSource | None) -> None:
        self._source = source
        self._file: tuple[_Stamp, Metadata] | None = None
        """Stamp and token of the file when it was last read."""
        self._fixed = _metadata(source) if isinstance(source, str) else None
        if isinstance(source, TokenFile):
            self._read(Path(source.path))

    def metadata(self) -> Metadata | None:
        """Return the metadata of the next call; None without a token.

        A file that cannot be read any more, or has no token, leaves the last token in use until the service refuses it.

        Raises:
            InvalidInput: a function returned what cannot be a token.
        """
        if isinstance(self._source, TokenFile):
            return self._of_file(Path(self._source.path))
        return _metadata(self._source()) if callable(self._source) else self._fixed

    def after_refusal(self, failure: DelayedTrackerError, sent: Metadata | None) -> Metadata | None:
        """Return the metadata to repeat a failed call with, once; None if repeating it cannot help.

        Args:
            failure: error of the call, which applied nothing if the credential was refused.
            sent: metadata of the call.
        Raises:
            InvalidInput: the credential was refused, and its file cannot be read any more or has no token.
        """
        if not isinstance(failure, Unauthenticated):
            return None
        newer = self._read(Path(self._source.path)) if isinstance(self._source, TokenFile) else self.metadata()
        return newer if newer != sent else None

    def _of_file(self, path: Path) -> Metadata:
        assert self._file is not None
        stamp, metadata = self._file
        try:
            return metadata if _stamp(path) == stamp else self._read(path)
        except (OSError, InvalidInput):
            return metadata

    def _read(self, path: Path) -> Metadata:
        try:
            # The stamp is from before the content: a change in between is seen at the next call.
            stamp = _stamp(path)
            with path.open("rb") as file:
                content = file.read(TOKEN_BYTES_MAX + 1)
        except OSError as error:
            raise InvalidInput(
                "token_file", str(path), f"{error.strerror}; give a file with a token that can be read"
            ) from error
        try:
            metadata = _metadata(content.decode("ascii", "replace").strip())
        except InvalidInput as error:
            raise InvalidInput("token_file", str(path), f"it has no token: {_TOKEN_REMEDY}") from error
        self._file = (stamp, metadata)
        return metadata


_Stamp: TypeAlias = tuple[int, int, int]


def _stamp(path: Path) -> _Stamp:
    found = path.stat()
    return found.st_mtime_ns, found.st_ino, found.st_size


def _metadata(token: str) -> Metadata:
    return (("authorization", f"Bearer {_require_token(token)}"),)


def _require_token(token: str) -> str:
    is_text = isinstance(token, str)
    if not is_text or not 0 < len(token) <= TOKEN_BYTES_MAX or not all("!" <= character <= "~" for character in token):
        raise InvalidInput("token", _NotShown(), _TOKEN_REMEDY)
    return token


class _NotShown:
    """Stands for a secret in errors."""

    def __repr__(self) -> str:
        return "<not shown>"


def _is_local(address: str) -> bool:
    if is_socket_file(address):
        return True
    found = host_and_port(address)
    if found is None:
        return False
    if found[0] == "localhost":
        return True
    try:
        return ipaddress.ip_address(found[0]).is_loopback
    except ValueError:
        return False
