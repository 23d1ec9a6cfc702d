"""Keys and tokens for the tests, and settings that know them."""

import base64
import functools
import time
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from delayed_tracker.service.settings.security import SecuritySettings

SECRET = bytes(range(32))
OTHER_SECRET = bytes(range(100, 132))


@functools.cache
def rsa_key(number: int = 0) -> rsa.RSAPrivateKey:
    """Return the same key for the same number, since making one takes a tenth of a second."""
    return rsa.generate_private_key(65_537, 2_048)


@functools.cache
def ec_key(number: int = 0) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def der(private) -> bytes:
    return private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def pem(private) -> bytes:
    return private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def data_url(content: bytes) -> str:
    return f"data:;base64,{base64.b64encode(content).decode()}"


def file_url(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return f"file://{path}"


def token(role: object = "shop", *, key=SECRET, algorithm="HS256", headers=None, **claims) -> str:
    """Return a token that ends in an hour, unless ``exp`` says otherwise; ``exp=None`` leaves it out."""
    payload = {"sub": role, "exp": int(time.time()) + 3_600, **claims}
    payload = {name: value for name, value in payload.items() if value is not None}
    signed: str = jwt.PyJWT(options={"enforce_minimum_key_length": False}).encode(
        payload, key, algorithm=algorithm, headers=headers
    )
    return signed


def bearer(text: str) -> str:
    return f"Bearer {text}"


def security(**changes) -> SecuritySettings:
    """Return settings that accept tokens of ``SECRET``."""
    given = {
        "authentication_enabled": True,
        "authentication_providers": "token",
        "token_secret_key": data_url(SECRET),
        **changes,
    }
    return SecuritySettings(**given)
