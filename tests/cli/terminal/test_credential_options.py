"""Tests of the options for TLS and tokens: the same for every command that talks to a service."""

import json
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2
from typer.utils import get_params_from_function

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.main import PROGRAM
from delayed_tracker.cli.spark.main import PROGRAM as SPARK
from delayed_tracker.client.errors import ERROR_DOMAIN
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.harness.scripted_service import abort, scripted_service_of_threads
from tests.client.harness.tls import server_credentials, written
from tests.service.security.certificates import Authority

TRACKER = ["--topic", "persistent://lab/main/delayed", "--subscription", "workers"]
OPTIONS = ["--tls-ca", "--tls-cert", "--tls-key", "--token-file", "--token-over-plain"]
LISTED = pb.ListTrackersResponse()
SECRET = "ey.this-is-a-token"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> dict[str, str]:
    """Write the values of the options that connect with everything."""
    certificate, key = written(authority.issue("operator"), tmp_path)
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    (tmp_path / "token").write_text(SECRET + "\n")
    return {
        "--tls-ca": str(tmp_path / "ca.crt"),
        "--tls-cert": str(certificate),
        "--tls-key": str(key),
        "--token-file": str(tmp_path / "token"),
    }


async def only_the_operator(request, context):
    """List nothing to who shows certificate and token."""
    seen = (*context.auth_context().get("x509_common_name", ()), dict(context.invocation_metadata())["authorization"])
    if seen != (b"operator", f"Bearer {SECRET}"):
        await abort(context, grpc.StatusCode.UNAUTHENTICATED, f"seen: {len(seen)}")
    return LISTED


def test_every_command_about_a_service_has_the_options():
    """A command with an address of a service has all of them, and no other command has any."""
    for program, addresses in ((PROGRAM, {"--server"}), (SPARK, {"--commit", "--against"})):
        with_them = set()
        for command in program.app().registered_commands:
            options = _options_of(command.callback)
            assert bool(options & addresses) == bool(options & set(OPTIONS)), command.name
            if options & addresses:
                assert options >= set(OPTIONS), command.name
                with_them.add(command.name)
        assert len(with_them) >= 2
    groups = [group.typer_instance for group in PROGRAM.app().registered_groups]
    for command in (command for group in groups for command in group.registered_commands):
        options = _options_of(command.callback) & {"--server", *OPTIONS}
        assert options == ({"--server", *OPTIONS} if command.name == "gc" else set()), command.name


def _options_of(callback) -> set[str]:
    parameters = get_params_from_function(callback).values()
    infos = [parameter.default for parameter in parameters]
    return {name for info in infos for name in (info.param_decls or ())}


def test_options_and_variables_mean_the_same(command, authority, files, monkeypatch):
    """Certificate and token reach the service, from the command line as from the environment."""
    with scripted_service_of_threads(server_credentials(authority, mutual=True)) as service:
        service.on("ListTrackers", only_the_operator)
        given = [part for option in files.items() for part in option]
        ran = command("trackers", "--server", service.address, *given)
        assert (ran.status, ran.err) == (0, "")
        monkeypatch.setenv("DELAYED_TRACKER_SERVER", f"tls://{service.address}")
        for option, value in files.items():
            monkeypatch.setenv(f"DELAYED_TRACKER_{option[2:].replace('-', '_').upper()}", value)
        ran = command("trackers")
        assert (ran.status, ran.err) == (0, "")
        assert len(service.requests_of("ListTrackers")) == 2


@pytest.mark.parametrize("name", ["top", "stats", "verify"])
def test_asyncio_and_blocking_commands_send_the_token(command, authority, files, name):
    """Commands of both shells pass their credentials on."""
    tokens = []

    async def note(request, context):
        tokens.append(dict(context.invocation_metadata())["authorization"])
        answer = {"top": LISTED, "stats": pb.GetTrackerStatsResponse(), "verify": pb.VerifySnapshotsResponse()}
        return answer[name]

    with scripted_service_of_threads() as service:
        for method in ("ListTrackers", "GetTrackerStats", "VerifySnapshots"):
            service.on(method, note)
        tracker = [] if name == "top" else TRACKER
        command(name, "--server", service.address, "--token-file", files["--token-file"], *tracker)
    assert tokens == [f"Bearer {SECRET}"]


def test_a_missing_permission_has_a_status_of_its_own(command, files):
    """The principal, the action and the topic are fields of the JSON error; the token is nowhere."""
    names = {"principal": "shop", "action": "read", "topic": TRACKER[1]}

    async def denied(request, context):
        info = error_details_pb2.ErrorInfo(reason="PERMISSION_DENIED", domain=ERROR_DOMAIN, metadata=names)
        await abort(context, grpc.StatusCode.PERMISSION_DENIED, "principal 'shop' may not read", info)

    with scripted_service_of_threads() as service:
        service.on("GetTrackerStats", denied)
        given = ["--server", service.address, "--token-file", files["--token-file"]]
        ran = command("stats", *TRACKER, *given, "--json")
        said = command("stats", *TRACKER, *given)
    assert ran.status == said.status == ExitCode.ACCESS_REFUSED
    assert json.loads(ran.err)["error"] == {
        "reason": "PERMISSION_DENIED",
        "message": "principal 'shop' may not read",
        "metadata": names,
    }
    assert said.err == "delayed-tracker: principal 'shop' may not read\n"


def test_a_refused_token_has_the_same_status(command, files):
    """The message names what to give."""

    async def refused(request, context):
        info = error_details_pb2.ErrorInfo(reason="UNAUTHENTICATED", domain=ERROR_DOMAIN)
        await abort(context, grpc.StatusCode.UNAUTHENTICATED, "the token has expired; send a valid token", info)

    with scripted_service_of_threads() as service:
        service.on("ListTrackers", refused)
        ran = command("trackers", "--server", service.address, "--token-file", files["--token-file"])
    assert (ran.status, ran.out) == (ExitCode.ACCESS_REFUSED, "")
    assert ran.err == "delayed-tracker: the token has expired; send a valid token\n"


@pytest.mark.long
@pytest.mark.slow
def test_tls_and_plain_that_meet_are_told_apart(command, authority, files):
    """Each direction of this common mistake is one line with the option to change."""
    with scripted_service_of_threads(server_credentials(authority)) as service:
        ran = command("trackers", "--server", service.address)
        assert ran.status == ExitCode.ACCESS_REFUSED
        assert ran.err == (
            f"delayed-tracker: the service at {service.address} speaks TLS, and this client does not: give the CA of its "
            "certificate (--tls-ca)\n"
        )
    with scripted_service_of_threads() as service:
        for given in (["--tls-ca", files["--tls-ca"]], []):
            address = service.address if given else f"tls://{service.address}"
            ran = command("trackers", "--server", address, *given)
            assert ran.status == ExitCode.ACCESS_REFUSED
            assert ran.err == (
                f"delayed-tracker: the service at {service.address} speaks plain gRPC, and this client TLS: leave out TLS "
                "(tls:// in the address, --tls-ca, --tls-cert), or give its address for TLS\n"
            )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ["--tls-ca", "{}/none"],
            "--tls-ca: '{}/none' is not valid; No such file or directory; give a file that can be",
        ),
        (["--tls-cert", "{}/own.crt"], "--tls-key: None is not valid; give a certificate and its key together"),
        (["--tls-key", "{}/own.key"], "--tls-cert: None is not valid; give a certificate and its key together"),
        (
            ["--token-file", "{}/none"],
            "--token-file: '{}/none' is not valid; No such file or directory; give a file with",
        ),
        (["--token-file", "~/token"], "--token-file: '~/token' is not valid; "),
        (
            ["--token-file", "{}/token", "--server", "192.0.2.1:7650"],
            "--server: '192.0.2.1:7650' is not valid; a token is not sent to another machine without encryption; use TLS",
        ),
        (["--server", "tls://tracker"], "--server: 'tracker' is not valid; give host:port "),
    ],
)
def test_wrong_options_are_usage_errors_with_their_names(command, files, tmp_path, given, said):
    """Nothing is sent; the message has the option, its value and the remedy."""
    ran = command("trackers", *(part.format(tmp_path) for part in given))
    assert (ran.status, ran.out) == (ExitCode.USAGE, "")
    assert ran.err.startswith(f"delayed-tracker: {said.format(tmp_path)}")
    assert SECRET not in ran.err
    assert ran.err.count("\n") == 1


def test_a_wrong_variable_is_named_instead_of_its_option(command, monkeypatch):
    """The user has not typed the option."""
    monkeypatch.setenv("DELAYED_TRACKER_TOKEN_FILE", "/none")
    ran = command("trackers")
    assert ran.status == ExitCode.USAGE
    assert ran.err.startswith("delayed-tracker: DELAYED_TRACKER_TOKEN_FILE: '/none' is not valid; No such file")
