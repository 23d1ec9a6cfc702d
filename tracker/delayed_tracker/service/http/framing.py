"""ASGI middleware that refuses requests whose body is large, or of unknown length."""

from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

BODY_BYTES_MAX: Final = 64 * 1024


class RequestFraming:
    """Middleware that passes on only requests whose body has a known, small length.

    No path of this service reads a body, so bodies that are ambiguous, of unknown length or large are refused. The refusal
    closes the connection, so that no later bytes are read as a request: a proxy that reads the length differently could
    otherwise be tricked into passing on a request that it has not checked.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        refusal = _refusal_of(Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)


def _refusal_of(headers: Headers) -> PlainTextResponse | None:
    length = headers.get("content-length")
    if "transfer-encoding" in headers:
        if length is not None:
            return _refused(400, "Content-Length and Transfer-Encoding exclude each other: send one of them")
        return _refused(411, "no request needs a body: send none, or its Content-Length")
    # The HTTP parser has checked that these are digits.
    if length is not None and int(length) > BODY_BYTES_MAX:
        return _refused(413, f"a body has at most {BODY_BYTES_MAX} bytes, and no request needs one")
    return None


def _refused(status: int, remedy: str) -> PlainTextResponse:
    return PlainTextResponse(f"{remedy}\n", status, headers={"connection": "close"})
