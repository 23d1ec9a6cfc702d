"""Tokens that Pulsar's own command makes are accepted, with the keys that it makes."""

import os
import subprocess
from pathlib import Path

import pytest

from delayed_tracker.service.errors import Unauthenticated
from delayed_tracker.service.security.token_keys import load_token_keys
from delayed_tracker.service.security.tokens import TokenVerifier
from tests.jvm.pulsar_classes import BROKER_POM, FETCH_TIMEOUT_S, NoPulsarClasses, class_path, find_java
from tests.service.security.tokens import security

pytestmark = [pytest.mark.long, pytest.mark.timeout(FETCH_TIMEOUT_S + 60)]

COMMAND = "org.apache.pulsar.utils.auth.tokens.TokensCliUtils"
"""Class that ``bin/pulsar tokens`` runs."""


@pytest.fixture(scope="module")
def tokens_command():
    """Return a function that runs ``pulsar tokens``."""
    try:
        java = [find_java(), "-XX:TieredStopAtLevel=1", "-cp", class_path(BROKER_POM), COMMAND]
    except NoPulsarClasses as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))

    def run(*arguments: str) -> str:
        return subprocess.run([*java, *arguments], capture_output=True, text=True, check=True).stdout.strip()

    return run


@pytest.mark.parametrize("is_base64", [False, True], ids=["raw", "base64"])
def test_tokens_of_a_secret_key(tokens_command, tmp_path: Path, is_base64):
    """A secret key as Pulsar writes it to a file, and the base64 that it prints, verify the tokens it signs."""
    path = tmp_path / "secret.key"
    tokens_command("create-secret-key", "--output", str(path), *(["--base64"] if is_base64 else []))
    given = f"data:;base64,{path.read_text().strip()}" if is_base64 else f"file://{path}"
    made = tokens_command("create", "--secret-key", given, "--subject", "shop", "--expiry-time", "1h")
    settings = security(token_secret_key=given)
    principal = TokenVerifier(settings, load_token_keys(settings)).verify(made)
    assert (principal.role, principal.expires_at_ms is not None) == ("shop", True)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "ES512"])
def test_tokens_of_a_key_pair(tokens_command, tmp_path: Path, algorithm):
    """A public key as Pulsar writes it verifies the tokens of its private key, and those of no other pair.

    Pulsar 4.2.4 also makes pairs for PS256 to PS512, but cannot sign with them.
    """
    private, public, other = (tmp_path / name for name in ("private.key", "public.key", "other.key"))
    for named in (public, other):
        tokens_command(
            "create-key-pair",
            "--signature-algorithm",
            algorithm,
            "--output-private-key",
            str(private),
            "--output-public-key",
            str(named),
        )
        if named is public:
            made = tokens_command("create", "-a", algorithm, "--private-key", f"file://{private}", "--subject", "shop")
    verifiers = [
        TokenVerifier(settings, load_token_keys(settings))
        for settings in (
            security(token_secret_key="", token_public_key=f"file://{named}", token_public_alg=algorithm)
            for named in (public, other)
        )
    ]
    assert verifiers[0].verify(made).role == "shop"
    with pytest.raises(Unauthenticated, match="not signed with a key of this service"):
        verifiers[1].verify(made)
