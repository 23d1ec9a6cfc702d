"""Tests of credentials: what is refused before a connection, with which words, and that no secret is shown."""

import threading
from pathlib import Path

import pytest

from delayed_tracker.client import ClientCredentials, InvalidInput, TlsCredentials, TokenFile
from delayed_tracker.client.model.channel import host_and_port
from delayed_tracker.client.model.credentials import TOKEN_BYTES_MAX, BearerTokens
from delayed_tracker.client.model.tls import PEM_BYTES_MAX, channel_credentials
from tests.client.harness.tls import encrypted_key
from tests.service.security.certificates import Authority

AUTHORITY = Authority()
ISSUED = AUTHORITY.issue("tracker")
NO_TOKEN = ["", "two words", "Bearer secret", "secret\n", "sécret", "secret\x00", "secret" * TOKEN_BYTES_MAX]


@pytest.mark.parametrize("token", NO_TOKEN, ids=range(len(NO_TOKEN)))
def test_what_cannot_be_a_token_is_refused_without_showing_it(token, tmp_path):
    """A token of the program, of its function and of a file has the same form and bound."""
    with pytest.raises(InvalidInput, match=r"token: <not shown> is not valid; a token is 1 to 8192 ") as caught:
        ClientCredentials(token=token)
    assert "ecret" not in f"{caught.value!r} {caught.value.violations}"
    with pytest.raises(InvalidInput, match="token: <not shown> is not valid"):
        BearerTokens(lambda: token).metadata()
    if token.strip() != "secret":
        (tmp_path / "token").write_text(token, encoding="utf-8")
        with pytest.raises(InvalidInput, match=r"token_file: '.*/token' is not valid; it has no token") as caught:
            BearerTokens(TokenFile(tmp_path / "token"))
        assert "ecret" not in str(caught.value)


@pytest.mark.parametrize("value", [7, b"secret", None])
def test_a_function_that_returns_no_text_is_refused(value):
    """The value is not shown, as it may be the token in another form."""
    with pytest.raises(InvalidInput, match="token: <not shown>"):
        BearerTokens(lambda: value).metadata()


def test_the_longest_token_is_sent():
    """The bound itself is accepted."""
    ((key, value),) = BearerTokens("t" * TOKEN_BYTES_MAX).metadata()
    assert (key, len(value)) == ("authorization", len("Bearer ") + TOKEN_BYTES_MAX)


def test_a_huge_token_file_is_not_read_whole(tmp_path):
    """A file of many gigabytes is refused at once."""
    with (tmp_path / "token").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(InvalidInput, match="it has no token"):
        BearerTokens(TokenFile(tmp_path / "token"))


def test_a_token_file_that_is_not_there_is_refused(tmp_path):
    """The path and the remedy are in the message."""
    with pytest.raises(
        InvalidInput, match=r"token_file: '.*/none' is not valid; No such file or directory; give a file"
    ):
        BearerTokens(TokenFile(tmp_path / "none"))


def test_credentials_are_not_shown_in_their_representation():
    """Neither a token nor a key gets into a log by the representation of what has it."""
    tls = TlsCredentials(ca=AUTHORITY.certificate, certificate=ISSUED.certificate, key=ISSUED.key)
    shown = repr(ClientCredentials(tls=tls, token="secret"))
    assert "secret" not in shown
    assert "BEGIN" not in shown


def test_threads_read_a_token_file_that_changes(tmp_path):
    """Each thread gets a whole token while the file is replaced again and again."""
    path = tmp_path / "token"
    path.write_text("token-0")
    tokens = BearerTokens(TokenFile(path))
    seen: set[str] = set()
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            ((_, value),) = tokens.metadata()
            seen.add(value)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(200):
        (tmp_path / "draft").write_text(f"token-{number}")
        (tmp_path / "draft").replace(path)
    done.set()
    for thread in threads:
        thread.join()
    assert seen <= {f"Bearer token-{number}" for number in range(200)}
    assert tokens.metadata() == (("authorization", "Bearer token-199"),)


@pytest.mark.parametrize(
    "given",
    [{"tls": "ca.crt"}, {"token": 7}, {"token": b"secret"}, {"token_over_plain": "yes"}, {"token": Path("token")}],
)
def test_other_types_are_refused(given):
    """A wrong type is refused where it is given."""
    with pytest.raises(InvalidInput) as caught:
        ClientCredentials(**given)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"certificate": ISSUED.certificate}, "tls.key: None is not valid; give a certificate and its key together"),
        ({"key": ISSUED.key}, "tls.certificate: None is not valid; give a certificate and its key together"),
        ({"ca": 7}, "tls.ca: <class 'int'> is not valid; give PEM as bytes, or the path of a file"),
    ],
)
def test_half_a_pair_is_refused(given, said):
    """A certificate without its key, and the other way round, cannot be shown to a service."""
    with pytest.raises(InvalidInput) as caught:
        TlsCredentials(**given)
    assert str(caught.value).startswith(said)


def pem_files(directory: Path) -> dict[str, Path]:
    other = AUTHORITY.issue("other")
    contents = {
        "ca": AUTHORITY.certificate,
        "certificate": ISSUED.certificate,
        "key": ISSUED.key,
        "other key": other.key,
        "text": b"no PEM",
        "half": AUTHORITY.certificate[:100] + b"\n-----END CERTIFICATE-----\n",
        "encrypted": encrypted_key(ISSUED),
    }
    paths = {name: directory / name.replace(" ", "-") for name in contents}
    for name, path in paths.items():
        path.write_bytes(contents[name])
    with (directory / "huge").open("wb") as file:
        file.truncate(PEM_BYTES_MAX + 1)
    return {**paths, "huge": directory / "huge", "none": directory / "none", "directory": directory}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ca": "none"}, "tls.ca: '{}/none' is not valid; No such file or directory"),
        ({"ca": "directory"}, "tls.ca: '{}' is not valid; Is a directory"),
        ({"ca": "text"}, "tls.ca: '{}/text' is not valid; it contains no certificate; give PEM"),
        ({"ca": "huge"}, "tls.ca: '{}/huge' is not valid; it has more than 1048576 bytes"),
        ({"ca": "half"}, "tls.ca: '{}/half' is not valid; "),
        (
            {"certificate": "certificate", "key": "other key"},
            "tls.key: '{}/other-key' is not valid; key values mismatch",
        ),
        ({"certificate": "certificate", "key": "encrypted"}, "tls.key: '{}/encrypted' is not valid; "),
        (
            {"certificate": "certificate", "key": "certificate"},
            "tls.key: '{}/certificate' is not valid; it contains no private key",
        ),
        (
            {"certificate": "key", "key": "key"},
            "tls.certificate: '{}/key' is not valid; it contains no certificate; give PEM",
        ),
    ],
)
def test_unusable_files_are_refused_with_their_path(tmp_path, given, said):
    """They are found before gRPC, which would take them and report a lost connection."""
    files = pem_files(tmp_path)
    with pytest.raises(InvalidInput) as caught:
        channel_credentials(TlsCredentials(**{name: files[file] for name, file in given.items()}))
    assert str(caught.value).startswith(said.format(tmp_path))


def test_bytes_that_are_no_pem_are_refused_without_showing_them():
    """The length stands for the content."""
    for name in ("certificate", "key"):
        with pytest.raises(InvalidInput, match=rf"tls\.{name}: '\(6 bytes\)' is not valid") as caught:
            channel_credentials(
                TlsCredentials(**{"certificate": ISSUED.certificate, "key": ISSUED.key, name: b"secret"})
            )
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("127.0.0.1:7650", ("127.0.0.1", 7650)),
        ("[::1]:7650", ("::1", 7650)),
        ("dns:///tracker:1", ("tracker", 1)),
        ("dns://192.0.2.1/tracker:1", ("tracker", 1)),
        ("dns:tracker:1", ("tracker", 1)),
        ("ipv4:192.0.2.1:1", ("192.0.2.1", 1)),
        ("ipv6:[::1]:1", ("::1", 1)),
        ("ipv4:127.0.0.1:1,192.0.2.1:1", None),
        ("unix:/run/tracker", None),
        ("xds:///tracker", None),
    ],
)
def test_targets_with_one_host_have_a_place(address, place):
    """Several hosts, sockets and other names have none."""
    assert host_and_port(address) == place
