"""The security matrix with client certificates: every call and every route at an address with mutual TLS."""

import contextlib
import ssl
from pathlib import Path

import grpc
import httpx
import pytest

from delayed_tracker.service.security.actions import CALL_ACTIONS, LISTING_CALLS, ROUTE_ACTIONS, Action
from delayed_tracker.service.settings.address import Transport
from tests.service.security.certificates import Certificate
from tests.service.security.secured import RULES, write_rules
from tests.service.security.test_matrix import ALLOWED, ELSEWHERE, INDEX, LEDGERS, TRACKERS, outcome
from tests.service.security.test_tls import AUTHORITY, STRANGER, Running, client_context, running, write, write_files

pytestmark = pytest.mark.slow

REFUSED = {
    "nothing": lambda: None,
    "wrong CA": lambda: STRANGER.issue("root"),
    "expired": lambda: AUTHORITY.expired("root"),
    "not yet valid": lambda: AUTHORITY.not_yet_valid("root"),
}
RIGHTS = {**ALLOWED, "root": set(Action)}
"""Actions of each role on the topic of the rules; ``root`` is a superuser."""
ROUTES = ("/health/live", "/health/ready", "/metrics", INDEX, ELSEWHERE)


@pytest.fixture
async def service(tmp_path: Path):
    write_rules(tmp_path / "rules.json", RULES)
    given = {
        "authentication_enabled": True,
        "authentication_providers": "tls",
        "authorization_enabled": True,
        "authorization_rules_file_path": str(tmp_path / "rules.json"),
        "super_user_roles": "root",
    }
    async with running(write_files(tmp_path), **given) as served:
        yield served


@contextlib.asynccontextmanager
async def channel_of(service: Running, client: Certificate | None):
    credentials = grpc.ssl_channel_credentials(
        AUTHORITY.certificate,
        None if client is None else client.key,
        None if client is None else client.certificate,
    )
    async with grpc.aio.secure_channel(str(service.grpc_address(Transport.MTLS)), credentials) as channel:
        yield channel


@contextlib.asynccontextmanager
async def http_of(service: Running, directory: Path, client: Certificate | None):
    context: ssl.SSLContext = client_context(None if client is None else write(directory, "client", client)[0])
    url = f"https://{service.http_address(Transport.MTLS)}"
    async with httpx.AsyncClient(verify=context, base_url=url) as http:
        yield http


@pytest.mark.parametrize("certificate", REFUSED)
async def test_no_connection_without_a_valid_certificate(service, tmp_path, certificate):
    """No call and no route answers, health included: the handshake fails, whatever is asked for."""
    client = REFUSED[certificate]()
    async with channel_of(service, client) as channel:
        for name in CALL_ACTIONS:
            if "grpc." not in name:
                code, info = await outcome(channel, name, None)
                assert (code, info) == (grpc.StatusCode.UNAVAILABLE, None), name
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await check(b"")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    async with http_of(service, tmp_path, client) as http:
        for path in ROUTES:
            with pytest.raises(httpx.TransportError):
                await http.get(path)


@pytest.mark.parametrize("role", RIGHTS)
async def test_the_name_of_a_certificate_has_the_rights_of_its_role(service, tmp_path, role):
    """Each call and each route is granted or denied by the action that the table says."""
    client = AUTHORITY.issue(role)
    async with channel_of(service, client) as channel:
        for name, needed in (*TRACKERS, *LEDGERS):
            code, info = await outcome(channel, name, None)
            whole_topic = role == "shop" and "Ledger" in name  # its rule is for one subscription
            if name in LISTING_CALLS or (needed in RIGHTS[role] and not whole_topic):
                assert code not in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}, name
            else:
                assert code is grpc.StatusCode.PERMISSION_DENIED, name
                assert info.metadata["principal"] == role
    denied = {
        "/metrics": role not in {"prometheus", "root"},
        INDEX: role not in {"reader", "contents", "root"},
    }
    async with http_of(service, tmp_path, client) as http:
        for path in ROUTES:
            assert ((await http.get(path)).status_code == 403) is denied.get(path, False), path


def test_the_routes_of_the_matrix_are_all_routes():
    """A new route joins the matrix."""
    assert len(ROUTES) == len(ROUTE_ACTIONS)
