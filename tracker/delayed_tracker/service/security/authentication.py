"""Finds the principal of a call from its credentials: a token, a client certificate, or none."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from delayed_tracker.service.errors import Unauthenticated
from delayed_tracker.service.security.principal import ROLE_BYTES_MAX, Principal
from delayed_tracker.service.security.token_keys import TokenKeys
from delayed_tracker.service.settings.security import SecuritySettings

if TYPE_CHECKING:
    from delayed_tracker.service.security.tokens import TokenVerifier

VERIFIED_TOKENS_MAX: Final = 10_000
"""Tokens whose verification is remembered; the one that was not used for longest is forgotten."""
_SCHEME: Final = "bearer "


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """Credentials that a caller sent. It has no representation, so that no log or error shows a token."""

    authorization: str | None = None
    """Value of the header or metadata key ``authorization``."""
    certificate_name: str | None = None
    """CN of the client certificate that TLS has verified."""


class Authenticator:
    """Finds principals. A token that was verified once costs 1 us, until it ends or the keys change.

    Args:
        settings: the providers and their rules.
        keys: that verify tokens at first.
        now_ms: returns the time, Unix milliseconds.
    """

    def __init__(self, settings: SecuritySettings, keys: TokenKeys, *, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._providers = settings.providers
        self._verifier = _verifier(settings, keys)
        self._now_ms = now_ms
        self._verified: OrderedDict[bytes, Principal] = OrderedDict()
        """Principals by the hash of their token: a token itself stays nowhere in memory."""

    def use_keys(self, keys: TokenKeys) -> None:
        """Verify with other keys from now on. Tokens of keys that are gone are refused at their next call."""
        self._verifier = _verifier(self._settings, keys)
        self._verified.clear()

    def principal_of(self, given: Credentials) -> Principal:
        """Return the principal of a call.

        Raises:
            Unauthenticated: there is no credential, or the token is not valid.
        """
        if given.authorization is not None and "token" in self._providers:
            return self._of_token(given.authorization)
        if given.certificate_name and "tls" in self._providers:
            if len(given.certificate_name) > ROLE_BYTES_MAX:
                raise Unauthenticated("the common name of the client certificate is no role")
            return Principal(given.certificate_name, "tls")
        if role := self._settings.anonymous_user_role:
            return Principal(role, "anonymous")
        raise Unauthenticated("the call has no credential")

    def _of_token(self, authorization: str) -> Principal:
        if authorization[: len(_SCHEME)].lower() != _SCHEME:
            raise Unauthenticated("the authorization is not of the form Bearer TOKEN")
        token = authorization[len(_SCHEME) :].strip()
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        principal = self._verified.get(digest)
        if principal is None:
            principal = self._verifier.verify(token)
            if len(self._verified) >= VERIFIED_TOKENS_MAX:
                self._verified.popitem(last=False)
            self._verified[digest] = principal
        else:
            self._verified.move_to_end(digest)
        if principal.expires_at_ms is not None and principal.expires_at_ms <= self._now_ms():
            del self._verified[digest]
            raise Unauthenticated("the token has expired", principal=principal.role)
        return principal


def _verifier(settings: SecuritySettings, keys: TokenKeys) -> "TokenVerifier":
    from delayed_tracker.service.security.tokens import TokenVerifier  # noqa: PLC0415  # PyJWT takes 70 ms to import

    return TokenVerifier(settings, keys)
