"""Verifies JSON web tokens with PyJWT. The keys decide which algorithms are accepted, never the token alone."""

from typing import Any, Final

import jwt
from jwt.types import Options

from delayed_tracker.service.errors import Unauthenticated
from delayed_tracker.service.security.principal import ROLE_BYTES_MAX, Principal
from delayed_tracker.service.security.token_keys import TokenKeys
from delayed_tracker.service.settings.security import SecuritySettings

TOKEN_BYTES_MAX: Final = 16 * 1024
"""A longer token is refused before it is read."""
_MALFORMED: Final = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)
"""Errors that PyJWT and json raise for a token that is no token: claims of the wrong type, brackets without an end."""
_END_MS_MAX: Final = 2**53
_DEFAULT_CLAIM: Final = "sub"
_AUDIENCE: Final = "aud"


class TokenVerifier:
    """Verifier of tokens with one set of keys.

    Args:
        settings: claims, audience and clock skew.
        keys: by algorithm. Secret keys verify HS256, HS384 and HS512 as far as they are long enough, public keys only
            ``tokenPublicAlg``.
    """

    def __init__(self, settings: SecuritySettings, keys: TokenKeys) -> None:
        self._settings = settings
        self._keys = keys.by_algorithm
        self._decoder = jwt.PyJWT()
        self._verifies_aud = settings.token_audience_claim == _AUDIENCE
        self._options: Options = {
            "verify_aud": self._verifies_aud,
            # Roles come from tokenAuthClaim, and Pulsar does not look at these.
            "verify_sub": False,
            "verify_iat": False,
        }

    def verify(self, token: str) -> Principal:
        """Return the principal of a token.

        Raises:
            Unauthenticated: it is malformed, badly signed, of another algorithm or audience, or not valid now. The error
                does not contain it.
        """
        if len(token) > TOKEN_BYTES_MAX:
            raise Unauthenticated(f"the token has more than {TOKEN_BYTES_MAX} bytes")
        claims = self._claims(token)
        self._require_audience(claims)
        ends_ms = None
        if "exp" in claims:
            ends_ms = min((int(claims["exp"]) + self._settings.token_allowed_clock_skew_seconds) * 1_000, _END_MS_MAX)
        return Principal(self._role(claims), "token", ends_ms)

    def _claims(self, token: str) -> dict[str, Any]:
        try:
            algorithm = jwt.get_unverified_header(token).get("alg")
        except _MALFORMED:
            raise Unauthenticated("the token is malformed") from None
        if not isinstance(algorithm, str) or algorithm not in self._keys:
            raise Unauthenticated("the token has an algorithm for which this service has no key")
        audience = self._settings.token_audience if self._verifies_aud else None
        for key in self._keys[algorithm]:
            try:
                return self._decoder.decode(
                    token,
                    key,
                    algorithms=[algorithm],
                    options=self._options,
                    audience=audience,
                    leeway=self._settings.token_allowed_clock_skew_seconds,
                )
            except jwt.InvalidSignatureError:
                continue
            except jwt.ExpiredSignatureError:
                raise Unauthenticated("the token has expired") from None
            except jwt.ImmatureSignatureError:
                raise Unauthenticated("the token is not valid yet") from None
            except (jwt.InvalidAudienceError, jwt.MissingRequiredClaimError):
                raise Unauthenticated("the token is for another audience") from None
            except _MALFORMED:
                raise Unauthenticated("the token is malformed") from None
        raise Unauthenticated("the token is not signed with a key of this service")

    def _require_audience(self, claims: dict[str, Any]) -> None:
        claim = self._settings.token_audience_claim
        if not claim or claim == _AUDIENCE:  # PyJWT has checked that one
            return
        given = claims.get(claim)
        if self._settings.token_audience not in (given if isinstance(given, list) else [given]):
            raise Unauthenticated("the token is for another audience")

    def _role(self, claims: dict[str, Any]) -> str:
        claim = self._settings.token_auth_claim or _DEFAULT_CLAIM
        role = claims.get(claim)
        if isinstance(role, list) and role:
            role = role[0]
        if not isinstance(role, str) or not role or not _is_name(role):
            raise Unauthenticated(f"the token's claim {claim} is no role")
        return role


def _is_name(role: str) -> bool:
    try:
        return len(role.encode()) <= ROLE_BYTES_MAX
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell
        return False
