"""Serves a WSGI application in threads of this process, and does to requests what a test asks for."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.test import EnvironBuilder, run_wsgi_app
from werkzeug.wrappers import Response

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


class WsgiServer:
    """A running server. ``endpoint`` is its URL."""

    def __init__(self, application: Application) -> None:
        self.requests: list[str] = []
        """Method, path and query of every request."""
        self.answer_once: list[tuple[str, int]] = []
        """Methods and statuses: the next request of the method is answered with the status, and not performed."""
        self.without_headers: set[str] = set()
        """Names of headers of requests, as WSGI has them, that the application does not see."""
        self._application = application
        # moto compares a version and writes in two steps; a real store does both in one.
        self._writes = threading.Lock()
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=_Handler)
        self.port: int = self._server.port
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def _serve(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        self.requests.append(f"{method} {environ['PATH_INFO']}?{environ['QUERY_STRING']}")
        # Read whatever happens, so that the connection can be used again.
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        for planned in self.answer_once:
            if planned[0] == method:
                self.answer_once.remove(planned)
                return Response("planned", planned[1])(environ, start_response)
        for name in self.without_headers:
            environ.pop(name, None)
        if method in {"PUT", "POST", "DELETE"}:
            with self._writes:
                return list(self._application(environ, start_response))
        return self._application(environ, start_response)

    def request(self, method: str, path: str) -> None:
        """Send the application a request without a client."""
        status = run_wsgi_app(self._application, EnvironBuilder(path, self.endpoint, method=method).get_environ())[1]
        assert status.startswith("2"), status

    @contextmanager
    def running(self) -> Iterator["WsgiServer"]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever, name="object-store", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


class _Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""
