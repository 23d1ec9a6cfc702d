"""Checks calls of gRPC before they have an effect: the credential before a request is read, the action after."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final, Self, TypeAlias, TypeVar

import grpc

from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.service.errors import PermissionDenied, Unauthenticated
from delayed_tracker.service.process.health import LEDGER_SERVICE_NAME
from delayed_tracker.service.security.actions import CALL_ACTIONS, DESTRUCTIVE_CALLS, LISTING_CALLS, Access, Action
from delayed_tracker.service.security.authentication import Credentials
from delayed_tracker.service.security.caller import Caller, admitted, set_caller
from delayed_tracker.service.security.guard import Guard
from delayed_tracker.wire.column_fields import Columned

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
T = TypeVar("T")
Names: TypeAlias = tuple[str, str]
AUTHORIZATION_KEY: Final = "authorization"
_CERTIFICATE_NAME: Final = "x509_common_name"
_ADDING_CALLS: Final = frozenset({"AddMessages", "AddMessagesStream", "ImportSnapshots"})
_WAITING_CALLS: Final = frozenset({"PollScheduledMessages"})
_NO_NAMES: Final = ("", "")
_TOO_LATE: Final = "the token has expired meanwhile"


class CallCheck:
    """Checks of one call, from its beginning to its end.

    Args:
        of: the method's access.
        caller: None if no credential is needed.
        given: the caller's credentials.
    """

    __slots__ = ("_given", "_keys_version", "_named", "_of", "_usage", "caller")

    def __init__(self, of: "MethodAccess", caller: Caller | None, given: Credentials) -> None:
        self._of = of
        self._given = given
        self._keys_version = 0 if caller is None else caller.guard.keys_version
        """Version of the keys that have verified the credentials."""
        self._named: Names = _NO_NAMES
        """Topic and subscription of the last request that named them."""
        self.caller = caller
        self._usage = None if caller is None else caller.usage

    def require(self, request: object, size: int) -> None:
        """Check a request that was read, and each request of a stream. Requests without names go on with the last.

        Args:
            request: as it was parsed.
            size: its bytes.
        Raises:
            Unauthenticated: the key of the caller's token is gone.
            PermissionDenied: the caller may not make the call on this topic.
            QuotaExceeded: the caller may not add more.
            InvalidInput: the topic of a ledger is malformed.
        """
        if self.caller is None:
            return
        self._require_keys(self.caller.guard)
        if self._usage is not None:
            self._usage.spend(indexes=_row_count(request), size=size)
        if self._of.action is not None:
            self._require_action(self.caller, self._of.action, request)
        if self._usage is not None and self._of.name in _ADDING_CALLS:
            self._usage.add(_row_count(request))

    def _require_keys(self, guard: Guard) -> None:
        """Authenticate the caller again if other keys verify tokens since the last time."""
        keys_version = guard.keys_version
        if keys_version != self._keys_version:
            guard.principal_of(self._given)
            self._keys_version = keys_version

    def _require_action(self, caller: Caller, action: Action, request: object) -> None:
        head: Any = request.head if isinstance(request, Columned) else request
        if self._of.name == "DeleteTracker" and not head.HasField("epoch"):
            action = Action.ADMIN
        self._named = self._of.names_of(head) or self._named
        caller.require(action, *self._named)

    def answered(self, size: int) -> None:
        """Count the bytes of an answer."""
        if self._usage is not None:
            self._usage.spend(size=size)

    async def begin_request(self) -> None:
        """Return when the caller's quota has room for the next request of a stream, which is then read."""
        if self._usage is not None:
            await self._usage.begin_request()

    async def in_time(self, answering: Awaitable[T]) -> T:
        """Await an answer; of a call that may wait, only until the caller's credential ends.

        Raises:
            Unauthenticated: the credential has ended.
        """
        if self.caller is None or self._of.name not in _WAITING_CALLS:
            return await answering
        return await _before_expiry(self.caller, answering)

    def require_time_left(self) -> None:
        """Raise Unauthenticated if the caller's credential, or its key, has ended; between the parts of an answer."""
        if self.caller is None:
            return
        self._require_keys(self.caller.guard)
        if self.caller.guard.remaining_seconds(self.caller.principal) == 0:
            raise Unauthenticated(_TOO_LATE, principal=self.caller.principal.role)

    def until_expiry(self, requests: AsyncIterable[T]) -> AsyncIterable[T]:
        """Return the requests of a stream, which ends with Unauthenticated when the caller's credential ends."""
        if self.caller is None or self.caller.principal.expires_at_ms is None:
            return requests
        return _RequestsUntilExpiry(self.caller, requests)

    def leave(self) -> None:
        """Count the call no more as one in flight."""
        if self.caller is not None:
            self.caller.ended()

    def ended(self, outcome: grpc.StatusCode) -> None:
        """Note the end of the call; that of a destructive one in the audit log, too."""
        self.leave()
        if self.caller is None or self._of.name not in DESTRUCTIVE_CALLS:
            return
        topic, subscription = self._named
        if outcome in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED} or not topic:
            return
        self.caller.guard.audit.destroyed(
            call=self._of.full_name,
            peer=self.caller.peer(),
            principal=self.caller.principal.role,
            topic=topic,
            subscription=subscription,
            outcome=outcome.name,
        )


class MethodAccess:
    """Access to one method.

    Args:
        guard: None lets everybody do everything.
        service: full name of the gRPC service.
        name: of the method, which ``CALL_ACTIONS`` has.
    """

    def __init__(self, guard: Guard | None, service: str, name: str) -> None:
        self.full_name = f"{service}/{name}"
        self.name = name
        needed = CALL_ACTIONS[self.full_name]
        self.action = needed if isinstance(needed, Action) and self.full_name not in LISTING_CALLS else None
        """Action that each request needs; None if a credential is enough, or none is needed."""
        self.names_of = _names_reader(service, name)
        """Returns the topic and the subscription of a request; None if it has none of its own."""
        self._guard = None if needed is Access.ANYBODY else guard

    def begin(self, context: Context, metadata: Iterable[tuple[str, str | bytes]]) -> CallCheck:
        """Authenticate the caller, set it for this task and count the call until ``CallCheck.leave`` or ``ended``.

        Raises:
            Unauthenticated: there is no credential, or it is not valid.
            QuotaExceeded: the caller has made too many calls, or too large ones, or has too many in flight.
        """
        guard = self._guard
        if guard is None:
            return CallCheck(self, None, Credentials())
        given = [value for key, value in metadata if key == AUTHORIZATION_KEY]
        if len(given) > 1:
            raise Unauthenticated("the call has more than one authorization")
        authorization = str(given[0]) if given else None
        name = None if given and guard.reads_tokens else _certificate_name(context)
        credentials = Credentials(authorization, name)
        caller = admitted(guard, credentials, context.peer)
        set_caller(caller)
        return CallCheck(self, caller, credentials)

    def refused(self, error: Exception, context: Context) -> None:
        """Note a refused call in the audit log; do nothing for other errors."""
        if self._guard is not None and isinstance(error, Unauthenticated | PermissionDenied):
            self._guard.refused(error, call=self.full_name, peer=context.peer())


class _RequestsUntilExpiry(AsyncIterator[T]):
    """Requests of a stream. Only the wait for the next one ends: a cancelled write would confuse gRPC."""

    def __init__(self, caller: Caller, requests: AsyncIterable[T]) -> None:
        self._caller = caller
        self._requests = aiter(requests)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        return await _before_expiry(self._caller, anext(self._requests))


async def _before_expiry(caller: Caller, awaited: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(caller.guard.remaining_seconds(caller.principal)) as limit:
            return await awaited
    except TimeoutError:
        if limit.expired():
            raise Unauthenticated(_TOO_LATE, principal=caller.principal.role) from None
        raise


def _row_count(request: object) -> int:
    return request.row_count if isinstance(request, Columned) else 0


def _certificate_name(context: Context) -> str | None:
    """Return the CN of the client certificate that TLS has verified; None without one."""
    names = list(context.auth_context().get(_CERTIFICATE_NAME, ()))
    return names[0].decode("utf-8", "replace") if len(names) == 1 else None


def _names_reader(service: str, name: str) -> Callable[[Any], Names | None]:
    if name == "ImportSnapshots":
        return _names_of_import
    return _names_of_ledger_call if service == LEDGER_SERVICE_NAME else _names_of_tracker_call


def _names_of_tracker_call(request: Any) -> Names | None:
    return (request.tracker.topic, request.tracker.subscription) if request.HasField("tracker") else None


def _names_of_import(request: Any) -> Names | None:
    return _names_of_tracker_call(request.header) if request.HasField("header") else None


def _names_of_ledger_call(request: Any) -> Names:
    # Rules hold for full names, and a ledger is also found by a shorter one.
    return (str(TopicName.parse(request.topic)), "")
