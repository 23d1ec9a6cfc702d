"""The caller of a call, as authentication found it."""

from dataclasses import dataclass
from typing import Final

ROLE_BYTES_MAX: Final = 1_024
"""A longer name of a role is refused."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Authenticated caller, or the anonymous one.

    Args:
        role: name that rules grant actions to: a token's claim, a certificate's CN, or ``anonymousUserRole``.
        method: ``token``, ``tls`` or ``anonymous``.
        expires_at_ms: Unix time in ms at which its credential ends; None if it does not end.
    """

    role: str
    method: str
    expires_at_ms: int | None = None
