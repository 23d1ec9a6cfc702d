"""Decides which actions a principal may take. Who may do what is up to a provider, of which this service has one.

A package of its own adds another provider by an entry point of the group ``delayed_tracker.authorization``.
"""

from collections import OrderedDict
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final, Protocol

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.security.actions import Action
from delayed_tracker.service.security.principal import Principal

ENTRY_POINTS: Final = "delayed_tracker.authorization"
DECISIONS_MAX: Final = 16_384
"""Decisions that are remembered; the one that was not used for longest is forgotten."""
REMEMBERED_NAMES_MAX: Final = 1_024
"""Decisions about longer names are not remembered, so that the memory for decisions has a bound: some 20 MB."""


@dataclass(frozen=True, slots=True)
class AuthorizationOptions:
    """Settings of a provider."""

    rules_path: Path | None
    """``authorizationRulesFilePath``; None if it is empty."""


class AuthorizationProvider(Protocol):
    """Source of decisions. Everything but :meth:`refresh` is called from the event loop and must not block."""

    @property
    def version(self) -> int:
        """A number that changes with the decisions; remembered decisions are then forgotten."""

    def allows(self, principal: Principal, action: Action, topic: str, subscription: str) -> bool:
        """Decide on one action.

        Args:
            principal: an authenticated caller, never one of ``superUserRoles``.
            action: one that a call needs.
            topic: full name, verbatim; empty if the call concerns no topic.
            subscription: verbatim; empty if the call concerns the topic as a whole.
        """

    def refresh(self) -> None:
        """Read again what the decisions depend on, if it has changed. Called every second, in a thread.

        Raises:
            InvalidInput: it is unusable, and the decisions stay as they were. Raised once for each change.
        """


class Decisions:
    """Decisions of a provider, remembered. A remembered one costs 0.5 us.

    Args:
        provider: decides.
        super_users: roles that may do everything.
    """

    def __init__(self, provider: AuthorizationProvider, super_users: frozenset[str]) -> None:
        self.provider = provider
        self._super_users = super_users
        self._version = provider.version
        self._remembered: OrderedDict[tuple[str, Action, str, str], bool] = OrderedDict()

    def allows(self, principal: Principal, action: Action, topic: str = "", subscription: str = "") -> bool:
        """Return True if the principal may take the action."""
        if principal.role in self._super_users:
            return True
        if self._version != self.provider.version:
            self._version = self.provider.version
            self._remembered.clear()
        key = (principal.role, action, topic, subscription)
        allowed = self._remembered.get(key)
        if allowed is None:
            allowed = self.decided(principal, action, topic, subscription)
            if len(topic) + len(subscription) <= REMEMBERED_NAMES_MAX:
                if len(self._remembered) >= DECISIONS_MAX:
                    self._remembered.popitem(last=False)
                self._remembered[key] = allowed
        else:
            self._remembered.move_to_end(key)
        return allowed

    def decided(self, principal: Principal, action: Action, topic: str, subscription: str) -> bool:
        """Return the same without remembering it, for lists of very many trackers."""
        return principal.role in self._super_users or self.provider.allows(principal, action, topic, subscription)


def open_provider(name: str, options: AuthorizationOptions) -> AuthorizationProvider:
    """Return the provider that ``authorizationProvider`` names. Blocks.

    Raises:
        InvalidInput: there is no such provider, or it cannot work with these options.
    """
    found = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in found:
        remedy = f"give one of {', '.join(sorted(found))}, or install the package that has it"
        raise InvalidInput("authorizationProvider", name, remedy)
    provider: AuthorizationProvider = found[name].load()(options)
    return provider
