"""Lets in callers with valid credentials, and lets each do what rules and quotas grant, at all ports of a service."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.clock import Clock, pause
from delayed_tracker.service.errors import PermissionDenied, Unauthenticated
from delayed_tracker.service.instruments.security_counts import SecurityCounts
from delayed_tracker.service.security.actions import Action
from delayed_tracker.service.security.audit import AuditLog
from delayed_tracker.service.security.authentication import Authenticator, Credentials
from delayed_tracker.service.security.authorization import AuthorizationOptions, Decisions, open_provider
from delayed_tracker.service.security.file_watch import FileWatch
from delayed_tracker.service.security.principal import Principal
from delayed_tracker.service.security.quota_usage import Holdings, PrincipalQuotas, PrincipalUsage
from delayed_tracker.service.security.quotas import QUOTAS_BYTES_MAX, Quotas
from delayed_tracker.service.security.token_keys import TokenKeys, load_token_keys, token_key_files
from delayed_tracker.service.security.watched_file import WatchedFile
from delayed_tracker.service.settings.security import SecuritySettings

REFRESH_MS: Final = 1_000
"""Keys, rules and quotas are looked at this often, so a change is in force within two seconds."""

_log = structlog.stdlib.get_logger("delayed_tracker.security")


@dataclass(slots=True)
class _Reread:
    """Changes found on the disk, by the kinds of ``RELOADED``."""

    keys: TokenKeys | None = None
    """New keys; None if they are as before, or broken."""
    changed: list[str] = field(default_factory=list)
    """Kinds with a new form, in force from now on."""
    problems: dict[str, str] = field(default_factory=dict)
    """Kinds that stay as they were, and the fault of the new form of each."""


class Guard:
    """Authentication, authorization, quotas and the audit log of one service.

    Args:
        settings: with ``authentication_enabled``.
        clock: of the service.
        counts: of refusals and reloads.
        holdings: what principals hold, for quotas.
        retry_after_ms: returns the delay before a retry, for quotas.

    Raises:
        InvalidInput: a key, the rules or the quotas are unusable. Blocks, so it is made in a thread.
    """

    def __init__(
        self,
        settings: SecuritySettings,
        clock: Clock,
        *,
        counts: SecurityCounts,
        holdings: Holdings,
        retry_after_ms: Callable[[], int],
    ) -> None:
        assert settings.authentication_enabled
        self.audit = AuditLog(clock)
        self.counts = counts
        self.keys_version = 0
        """Rises when other keys verify tokens: what goes on for long must authenticate its caller again."""
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
        self._quotas_file: WatchedFile[Quotas] | None = None
        self._quotas: PrincipalQuotas | None = None
        if quotas_path := settings.quotas_file_path:
            self._quotas_file = WatchedFile(
                "quotasFilePath", Path(quotas_path), bytes_max=QUOTAS_BYTES_MAX, parse=Quotas.parse
            )
            self._quotas = PrincipalQuotas(
                self._quotas_file.value,
                super_users=settings.super_users,
                holdings=holdings,
                clock=clock,
                counts=counts,
                retry_after_ms=retry_after_ms,
            )

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

    def usage_of(self, principal: Principal) -> PrincipalUsage | None:
        """Return what the principal has used of its quota; None without quotas."""
        return None if self._quotas is None else self._quotas.usage_of(principal.role)

    def refused(self, error: Unauthenticated | PermissionDenied, *, call: str, peer: str) -> None:
        """Count a refused call, and log it; see ``AuditLog.refused``."""
        self.counts.refused[error.reason] += 1
        self.audit.refused(error, call=call, peer=peer)

    async def run(self) -> None:
        """Read keys, rules and quotas again when they change, until cancelled. What is broken stays as it was."""
        while True:
            await pause(self._clock, REFRESH_MS)
            found = await asyncio.to_thread(self._reread)
            if found.keys is not None:
                self._authenticator.use_keys(found.keys)
                self.keys_version += 1
            if "quotas" in found.changed and self._quotas is not None and self._quotas_file is not None:
                self._quotas.adopt(self._quotas_file.value)
            for kind in found.changed:
                self.counts.reloaded(kind)
                _log.info("reloaded", kind=kind)
            for kept, problem in found.problems.items():
                self.counts.not_reloaded(kept)
                _log.error("not reloaded, the old ones stay in force", kept=kept, problem=problem)

    def _reread(self) -> _Reread:
        found = _Reread()
        if self._key_watch.changed():
            try:
                found.keys = load_token_keys(self._settings)
                found.changed.append("token_keys")
            except InvalidInput as error:
                found.problems["token_keys"] = error.message
        if self._quotas_file is not None:
            try:
                if self._quotas_file.refresh():
                    found.changed.append("quotas")
            except InvalidInput as error:
                found.problems["quotas"] = error.message
        if self._decisions is not None:
            provider = self._decisions.provider
            before = provider.version
            try:
                provider.refresh()
            except InvalidInput as error:
                found.problems["rules"] = error.message
            except Exception as error:  # noqa: BLE001  # code of others, whose bug must not end all reloading
                found.problems["rules"] = f"the provider failed: {type(error).__name__}: {error}"
            else:
                if provider.version != before:
                    found.changed.append("rules")
        return found
