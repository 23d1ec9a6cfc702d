"""Checks requests of HTTP: the credential of every one but those for health, the action where the route knows it."""

import math
from collections.abc import Mapping
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.service.errors import PermissionDenied, QuotaExceeded, Unauthenticated, shortened
from delayed_tracker.service.http.connections import CLIENT_NAME
from delayed_tracker.service.http.message_id import TopicAuthorization
from delayed_tracker.service.security.actions import ROUTE_ACTIONS, Access, Action
from delayed_tracker.service.security.authentication import Credentials
from delayed_tracker.service.security.caller import Caller, admitted, current_caller, set_caller
from delayed_tracker.service.security.guard import Guard
from delayed_tracker.service.telemetry.call_identity import begin_call

_FREE: Final = frozenset(path for path, needed in ROUTE_ACTIONS.items() if needed is Access.ANYBODY)
_PULSAR_UNAUTHENTICATED: Final = "Need to authenticate to perform the request"
_PULSAR_OPERATION: Final = "PEEK_MESSAGES"
_METRICS: Final = "/metrics"


class AccessControl:
    """ASGI middleware that passes on requests of authenticated callers, and those that need no credential.

    A path that is no route is answered to principals alone, so that a new route is closed until it is opened here.

    Args:
        app: the application behind it.
        guard: of the service.
    """

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request with 401, 403 or 429, or pass it on with its caller set."""
        if scope["type"] != "http" or scope["path"] in _FREE:
            await self._app(scope, receive, send)
            return
        admission = self._admission(scope)
        if isinstance(admission, JSONResponse):
            await admission(scope, receive, send)
            return
        set_caller(admission)
        try:
            await self._app(scope, receive, send)
        finally:
            admission.ended()

    def _admission(self, scope: Scope) -> Caller | JSONResponse:
        headers = Headers(scope=scope)
        begin_call(headers.items())

        def peer() -> str:
            host, port = scope.get("client") or ("", 0)
            return f"{host}:{port}"

        try:
            caller = admitted(self._guard, _credentials(scope, headers), peer)
        except Unauthenticated as error:
            self._guard.refused(error, call=shortened(scope["path"]), peer=peer())
            challenge = {"www-authenticate": "Bearer"}
            return JSONResponse({"reason": _PULSAR_UNAUTHENTICATED}, status_code=401, headers=challenge)
        except QuotaExceeded as error:
            delay = {"retry-after": str(math.ceil(error.retry_after_ms / 1_000))}
            return JSONResponse({"reason": error.message}, status_code=429, headers=delay)
        if scope["path"] == _METRICS:
            try:
                caller.require(Action.METRICS)
            except PermissionDenied as error:
                caller.ended()
                self._guard.refused(error, call=_METRICS, peer=peer())
                return JSONResponse({"reason": error.message}, status_code=403)
        return caller


class GuardedTopics:
    """Authorization of topics by the guard of the service, and then by another policy.

    Args:
        inner: asked if the guard refuses nothing.
    """

    def __init__(self, inner: TopicAuthorization) -> None:
        self._inner = inner

    async def refusal(self, topic: TopicName, headers: Mapping[str, str]) -> str | None:
        """Return Pulsar's text if the caller may not read the topic, or the text of the other policy."""
        caller = current_caller()
        if caller is not None:
            try:
                caller.require(Action.READ, str(topic))
            except PermissionDenied as error:
                caller.guard.refused(error, call="getMessageIdByIndex", peer=caller.peer())
                return f"Unauthorized to validateTopicOperation for operation [{_PULSAR_OPERATION}] on topic [{topic}]"
        return await self._inner.refusal(topic, headers)


def _credentials(scope: Scope, headers: Headers) -> Credentials:
    given = headers.getlist("authorization")
    if len(given) > 1:
        raise Unauthenticated("the call has more than one authorization")
    return Credentials(given[0] if given else None, scope.get("state", {}).get(CLIENT_NAME))
