"""The caller of the call that the current task serves."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass

from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.security.actions import Action
from delayed_tracker.service.security.authentication import Credentials
from delayed_tracker.service.security.guard import Guard
from delayed_tracker.service.security.principal import Principal
from delayed_tracker.service.security.quota_usage import PrincipalUsage


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller of one call."""

    principal: Principal
    peer: Callable[[], str]
    """Returns the address from which it calls, as gRPC or HTTP shows it."""
    guard: Guard
    usage: PrincipalUsage | None = None
    """Usage of its principal's quota; None without quotas."""

    def require(self, action: Action, topic: str = "", subscription: str = "") -> None:
        """Refuse an action. Raises PermissionDenied."""
        self.guard.require(self.principal, action, topic, subscription)

    def ended(self) -> None:
        """Note the end of the call, however it ended: once for each caller that was admitted."""
        if self.usage is not None:
            self.usage.end_call()


def admitted(guard: Guard, given: Credentials, peer: Callable[[], str]) -> Caller:
    """Authenticate the caller of a call, and count the call, which is in flight until ``Caller.ended``.

    Raises:
        Unauthenticated: there is no credential, or it is not valid.
        QuotaExceeded: the caller has made too many calls, or too large ones, or has too many in flight.
    """
    principal = guard.principal_of(given)
    usage = guard.usage_of(principal)
    if usage is not None:
        usage.begin_call()
    return Caller(principal, peer, guard, usage)


_current: ContextVar[Caller | None] = ContextVar("tracker_caller", default=None)


def set_caller(caller: Caller | None) -> None:
    """Set the caller for this task and the tasks that it starts from now on."""
    _current.set(caller)


def current_caller() -> Caller | None:
    """Return the caller of the current call; None without authentication."""
    return _current.get()


def opening(key: TrackerKey) -> AbstractContextManager[None]:
    """Return a context in which the current caller may open a tracker. Its entry raises QuotaExceeded."""
    caller = _current.get()
    return nullcontext() if caller is None or caller.usage is None else caller.usage.opening(key)


def handed_out(count: int) -> None:
    """Count indexes that the answer of the current call has."""
    caller = _current.get()
    if caller is not None and caller.usage is not None:
        caller.usage.spend(indexes=count)


def may_see(topic: str, subscription: str) -> bool:
    """Return True if the current caller may see a tracker in a list."""
    caller = _current.get()
    return caller is None or caller.guard.shows(caller.principal, Action.READ, topic, subscription)
