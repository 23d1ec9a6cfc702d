"""Lets in callers with valid credentials, and lets each do what rules grant. One guard serves both ports of a service."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import structlog

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.clock import Clock, pause
from delayed_tracker.service.errors import PermissionDenied
from delayed_tracker.service.security.actions import Action
from delayed_tracker.service.security.audit import AuditLog
from delayed_tracker.service.security.authentication import Authenticator, Credentials
from delayed_tracker.service.security.authorization import AuthorizationOptions, Decisions, open_provider
from delayed_tracker.service.security.file_watch import FileWatch
from delayed_tracker.service.security.principal import Principal
from delayed_tracker.service.security.token_keys import TokenKeys, load_token_keys, token_key_files
from delayed_tracker.service.settings.security import SecuritySettings

REFRESH_MS: Final = 1_000
"""Keys and rules are looked at this often, so a change is in force within two seconds."""

_log = structlog.stdlib.get_logger("delayed_tracker.security")


@dataclass(frozen=True, slots=True)
class _Reread:
    """Changes found on the disk."""

    keys: TokenKeys | None = None
    """New keys; None if they are as before, or broken."""
    problems: tuple[tuple[str, str], ...] = ()
    """Parts that stay as they were, and the fault of the new form of each."""


class Guard:
    """Authentication, authorization and the audit log of one service.

    Args:
        settings: with ``authentication_enabled``.
        clock: of the service.

    Raises:
        InvalidInput: a key or the rules are unusable. Blocks, so it is made in a thread.
    """

    def __init__(self, settings: SecuritySettings, clock: Clock) -> None:
        assert settings.authentication_enabled
        self.audit = AuditLog(clock)
        self._settings = settings
        self._clock = clock
        self._key_watch = FileWatch(token_key_files(settings))
        self._key_watch.changed()
        self._authenticator = Authenticator(settings, load_token_keys(settings), now_ms=clock.now_ms)
        self._decisions: Decisions | None = None
        if settings.authorization_enabled:
            path = settings.authorization_rules_file_path
            options = AuthorizationOptions(Path(path) if path else None)
            provider = open_provider(settings.authorization_provider, options)
            self._decisions = Decisions(provider, settings.super_users)

    @classmethod
    async def load(cls, settings: SecuritySettings, clock: Clock) -> Self | None:
        """Return the guard of a service; None without authentication.

        Raises:
            InvalidInput: a key or the rules are unusable.
        """
        return await asyncio.to_thread(cls, settings, clock) if settings.authentication_enabled else None

    @property
    def reads_tokens(self) -> bool:
        """True if a token decides, however the caller has connected."""
        return "token" in self._settings.providers

    def principal_of(self, given: Credentials) -> Principal:
        """Return the principal of a call.

        Raises:
            Unauthenticated: there is no credential, or it is not valid.
        """
        return self._authenticator.principal_of(given)

    def allows(self, principal: Principal, action: Action, topic: str = "", subscription: str = "") -> bool:
        """Return True if the principal may take the action; always without authorization."""
        return self._decisions is None or self._decisions.allows(principal, action, topic, subscription)

    def shows(self, principal: Principal, action: Action, topic: str, subscription: str) -> bool:
        """Return the same for a row of a list, without remembering it."""
        return self._decisions is None or self._decisions.decided(principal, action, topic, subscription)

    def require(self, principal: Principal, action: Action, topic: str = "", subscription: str = "") -> None:
        """Refuse an action.

        Raises:
            PermissionDenied: no rule grants it.
        """
        if not self.allows(principal, action, topic, subscription):
            raise PermissionDenied(principal.role, action.value, topic=topic, subscription=subscription)

    def remaining_seconds(self, principal: Principal) -> float | None:
        """Return the seconds until the principal's credential ends; None if it does not."""
        if principal.expires_at_ms is None:
            return None
        return max(principal.expires_at_ms - self._clock.now_ms(), 0) / 1_000

    async def run(self) -> None:
        """Read keys and rules again when they change, until cancelled. What is broken stays as it was."""
        while True:
            await pause(self._clock, REFRESH_MS)
            found = await asyncio.to_thread(self._reread)
            if found.keys is not None:
                self._authenticator.use_keys(found.keys)
                _log.info("token keys reloaded", keys=repr(found.keys))
            for kept, problem in found.problems:
                _log.error("not reloaded, the old ones stay in force", kept=kept, problem=problem)

    def _reread(self) -> _Reread:
        keys: TokenKeys | None = None
        problems: list[tuple[str, str]] = []
        if self._key_watch.changed():
            try:
                keys = load_token_keys(self._settings)
            except InvalidInput as error:
                problems.append(("token keys", error.message))
        if self._decisions is not None:
            try:
                self._decisions.provider.refresh()
            except InvalidInput as error:
                problems.append(("rules", error.message))
        return _Reread(keys, tuple(problems))
