"""Tokens: what is accepted, and everything that is not: algorithms, claims, times, shapes."""

import base64
import hashlib
import hmac
import json
import random
import time

import jwt
import pytest

from delayed_tracker.service.errors import Unauthenticated
from delayed_tracker.service.security.token_keys import load_token_keys
from delayed_tracker.service.security.tokens import TOKEN_BYTES_MAX, TokenVerifier
from tests.service.security.tokens import (
    OTHER_SECRET,
    SECRET,
    data_url,
    der,
    ec_key,
    pem,
    rsa_key,
    security,
    token,
)


def verifier(**changes) -> TokenVerifier:
    given = security(**changes)
    return TokenVerifier(given, load_token_keys(given))


def by_public_key(private=None, algorithm="RS256", **changes) -> TokenVerifier:
    public = data_url(der(private or rsa_key()))
    return verifier(token_secret_key="", token_public_key=public, token_public_alg=algorithm, **changes)


def raw(header: object, claims: object, signature: bytes = b"x") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def signed_with(public: bytes) -> str:
    """Return a token whose secret is a public key, which PyJWT refuses to make."""
    signed, _, _ = raw({"alg": "HS256", "typ": "JWT"}, {"sub": "admin"}).rpartition(".")
    mac = hmac.digest(public, signed.encode(), hashlib.sha256)
    return f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def test_the_principal_of_a_token():
    """The role is the subject, and the end counts in milliseconds."""
    found = verifier().verify(token("shop", exp=4_000_000_000))
    assert (found.role, found.method, found.expires_at_ms) == ("shop", "token", 4_000_000_000_000)
    assert verifier().verify(token(exp=None)).expires_at_ms is None


@pytest.mark.parametrize(("key", "algorithm"), [(rsa_key(), "RS256"), (rsa_key(), "PS384"), (ec_key(), "ES256")])
def test_public_algorithms(key, algorithm):
    """A token is accepted if it has the one algorithm that the settings name."""
    assert by_public_key(key, algorithm).verify(token(key=key, algorithm=algorithm)).role == "shop"


def test_longer_secrets():
    """A key of Pulsar's `create-secret-key -a HS512` signs with HS512."""
    assert verifier(token_secret_key=data_url(SECRET * 2)).verify(token(key=SECRET * 2, algorithm="HS512"))
    with pytest.raises(Unauthenticated, match="algorithm"):
        verifier().verify(token(key=SECRET * 2, algorithm="HS512"))


def test_several_keys():
    """During a rotation, tokens of the old and the new key are accepted, and secret and public keys together."""
    both = verifier(
        token_secret_key=f"{data_url(SECRET)} {data_url(OTHER_SECRET)}", token_public_key=data_url(der(rsa_key()))
    )
    for signed in (token(), token(key=OTHER_SECRET), token(key=rsa_key(), algorithm="RS256")):
        assert both.verify(signed).role == "shop"
    with pytest.raises(Unauthenticated, match="not signed with a key"):
        both.verify(token(key=bytes(32)))


@pytest.mark.parametrize(
    "forged",
    [
        raw({"alg": "none"}, {"sub": "admin"}, b""),
        raw({"alg": "None", "typ": "JWT"}, {"sub": "admin"}, b""),
        raw({"alg": ["HS256"]}, {"sub": "admin"}),
        raw({}, {"sub": "admin"}),
        token(key=rsa_key(1), algorithm="RS256"),
        token(key=rsa_key(), algorithm="RS512"),
        token(key=rsa_key(), algorithm="PS256"),
        token(key=ec_key(), algorithm="ES256"),
        signed_with(der(rsa_key())),
        signed_with(pem(rsa_key())),
        token(key=rsa_key(), algorithm="RS256", headers={"crit": ["exotic"], "exotic": True}),
    ],
    ids=[
        "none",
        "None",
        "list",
        "missing",
        "other key",
        "RS512",
        "PS256",
        "ES256",
        "HS256 with DER",
        "HS256 with PEM",
        "crit",
    ],
)
def test_forged_tokens(forged):
    """The algorithm is that of the settings, whatever the token says, and an unknown `crit` is refused."""
    with pytest.raises(Unauthenticated):
        by_public_key().verify(forged)


def test_a_tampered_token():
    """Other claims need another signature."""
    header, _, signature = token().split(".")
    _, claims, _ = token("admin").split(".")
    with pytest.raises(Unauthenticated, match="not signed"):
        verifier().verify(f"{header}.{claims}.{signature}")


def test_times():
    """A token is refused before it begins and after it ends; the allowed skew moves both."""
    now = int(time.time())
    ended, early = token(exp=now - 5), token(nbf=now + 60)
    with pytest.raises(Unauthenticated, match="expired"):
        verifier().verify(ended)
    with pytest.raises(Unauthenticated, match="not valid yet"):
        verifier().verify(early)
    skewed = verifier(token_allowed_clock_skew_seconds=100)
    assert skewed.verify(ended).expires_at_ms == (now + 95) * 1_000
    assert skewed.verify(early).role == "shop"


@pytest.mark.parametrize("claim", ["aud", "cluster"])
def test_audiences(claim):
    """The claim is the audience or contains it, whatever its name."""
    strict = verifier(token_audience_claim=claim, token_audience="tracker-1")
    for accepted in ("tracker-1", ["other", "tracker-1"]):
        assert strict.verify(token(**{claim: accepted})).role == "shop"
    for refused in ("other", ["other"], [], None, "tracker-10"):
        with pytest.raises(Unauthenticated, match="audience"):
            strict.verify(token(**{claim: refused}))
    assert verifier().verify(token(**{claim: "anything"})).role == "shop"


def test_claims_of_roles():
    """The role may be another claim, or the first of a list, as in Pulsar."""
    assert verifier(token_auth_claim="user").verify(token(user="a")).role == "a"
    assert verifier().verify(token(["first", "second"])).role == "first"
    assert verifier().verify(token("é" * 512)).role == "é" * 512
    for role in (None, "", [], [1], 7, {"a": 1}, "x" * 1_025, "é" * 513, "\ud800"):
        with pytest.raises(Unauthenticated, match="is no role"):
            verifier().verify(token(role) if role is not None else token(None))


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": "soon"},
        {"exp": [1]},
        {"exp": 10**400},
        {"exp": {"a": 1}},
        {"nbf": []},
        {"nbf": "x"},
    ],
)
def test_claims_of_the_wrong_type(claims):
    """Only a declared error comes out, or a principal whose end is a number that timers can take."""
    try:
        found = verifier().verify(jwt.encode({"sub": "shop", **claims}, SECRET))
    except Unauthenticated:
        return
    assert found.expires_at_ms is not None
    assert found.expires_at_ms <= 2**53


@pytest.mark.parametrize(
    "text", ["", ".", "..", "a.b.c", "\ud800.x.y", "é.é.é", "." * 1_000, "x" * (TOKEN_BYTES_MAX + 1)]
)
def test_text_that_is_no_token(text):
    """Malformed text is refused, and not repeated."""
    with pytest.raises(Unauthenticated) as refused:
        verifier().verify(text)
    assert len(refused.value.message) < 300


def test_brackets_without_an_end():
    """A header that is nested as deeply as a token is long does not exhaust the stack."""
    deep = base64.urlsafe_b64encode(b"[" * 12_000).rstrip(b"=").decode()
    with pytest.raises(Unauthenticated):
        verifier().verify(f"{deep[:16_000]}.x.y")
    signed = base64.urlsafe_b64encode(b'{"alg":"HS256"}').rstrip(b"=").decode()
    with pytest.raises(Unauthenticated):
        verifier().verify(f"{signed}.{deep[:16_000]}.y")


def test_ten_thousand_mutations():
    """Every mutation of a token is refused with the declared error, unless it decodes to the same bytes."""
    rng, good, checked = random.Random(1), token(), verifier()
    for _ in range(10_000):
        cut = rng.randrange(len(good))
        mutated = good[:cut] + chr(rng.randrange(32, 256)) + good[cut + rng.randrange(3) :]
        try:
            found = checked.verify(mutated)
        except Unauthenticated:
            continue
        assert found.role == "shop"
