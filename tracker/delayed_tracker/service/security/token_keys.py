"""Keys that verify tokens, as Pulsar's settings name them: files, ``data:`` URLs, and PEM.

Source: Pulsar's AuthTokenUtils (readKeyFromUrl, decodePublicKey), which reads one key; here each setting has several.
"""

import base64
import binascii
import re
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, SECP384R1, SECP521R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.whole_file import read_whole
from delayed_tracker.service.settings.keys import HIDDEN
from delayed_tracker.service.settings.security import SecuritySettings

PublicKey: TypeAlias = RSAPublicKey | EllipticCurvePublicKey

KEY_FILE_BYTES_MAX: Final = 64 * 1024
KEYS_MAX: Final = 16
"""Keys of one setting: each bad token is tried against all of them."""
_RSA_BITS: Final = (2_048, 16_384)
_SECRET_BYTES_MIN: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Least bytes of a secret key for each algorithm, as in RFC 7518 and Pulsar's library."""
_CURVES: Final = {"ES256": SECP256R1, "ES384": SECP384R1, "ES512": SECP521R1}
_PEM: Final = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", re.DOTALL)
_DATA_URL: Final = re.compile(r"data:[^,;]*;base64,(?P<encoded>.*)", re.DOTALL)
_FILE_REMEDY: Final = "give file://PATH of a readable file"


@dataclass(frozen=True, slots=True)
class TokenKeys:
    """Keys that verify tokens. None of them is shown in a representation."""

    by_algorithm: dict[str, tuple[bytes | PublicKey, ...]]

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}: {len(keys)}" for name, keys in self.by_algorithm.items())
        return f"TokenKeys({counts})"


def load_token_keys(settings: SecuritySettings) -> TokenKeys:
    """Read all keys that the settings name. Blocks.

    Raises:
        InvalidInput: a key cannot be read, is too weak, or does not belong to the algorithm. It names the setting and
            the file, but no key.
    """
    secrets = [_secret(content, where) for where, content in _contents("tokenSecretKey", settings.token_secret_key)]
    algorithm = settings.token_public_alg
    public = [
        key
        for where, content in _contents("tokenPublicKey", settings.token_public_key)
        for key in _public_keys(content, where, algorithm)
    ]
    if len(public) > KEYS_MAX:
        raise InvalidInput("tokenPublicKey", f"{len(public)} keys", f"give at most {KEYS_MAX}")
    by_algorithm: dict[str, tuple[bytes | PublicKey, ...]] = {}
    for name, bytes_min in _SECRET_BYTES_MIN.items():
        if long_enough := tuple(secret for secret in secrets if len(secret) >= bytes_min):
            by_algorithm[name] = long_enough
    if public:
        by_algorithm[algorithm] = tuple(public)
    return TokenKeys(by_algorithm)


def token_key_files(settings: SecuritySettings) -> tuple[Path, ...]:
    """Return the files that the settings name as keys."""
    given = (*_sources(settings.token_secret_key), *_sources(settings.token_public_key))
    return tuple(path for source in given if (path := _path_of(source)) is not None)


def _sources(text: str) -> list[str]:
    return [text] if text.lstrip().startswith("-----BEGIN") else text.split()


def _contents(key: str, text: str) -> list[tuple[tuple[str, str], bytes]]:
    """Return the bytes of each key of a setting, with the setting and the value to show in errors."""
    sources = _sources(text)
    if len(sources) > KEYS_MAX:
        raise InvalidInput(key, f"{len(sources)} keys", f"give at most {KEYS_MAX}")
    return [((key, source if _path_of(source) else HIDDEN), _content(key, source)) for source in sources]


def _content(key: str, source: str) -> bytes:
    if (path := _path_of(source)) is not None:
        try:
            return read_whole(path, KEY_FILE_BYTES_MAX)
        except OSError as error:
            raise InvalidInput(key, source, f"{error.strerror or error}: {_FILE_REMEDY}") from None
    if found := _DATA_URL.fullmatch(source):
        try:
            return base64.b64decode(found["encoded"], validate=True)
        except (binascii.Error, ValueError):
            raise InvalidInput(key, HIDDEN, "give base64 behind data:;base64,") from None
    if source.lstrip().startswith("-----BEGIN"):
        return source.encode()
    raise InvalidInput(key, HIDDEN, "give file://PATH or data:;base64,BYTES")


def _path_of(source: str) -> Path | None:
    """Return the path of ``file:`` URLs as Java writes them, with one or three slashes, or relative; else None."""
    if not source.startswith("file:"):
        return None
    path = source.removeprefix("file:")
    if path.startswith("//"):
        path = path.removeprefix("//").removeprefix("localhost")
    return Path(urllib.parse.unquote(path))


def _secret(content: bytes, where: tuple[str, str]) -> bytes:
    if content.lstrip().startswith(b"-----BEGIN"):
        raise InvalidInput(*where, "it is a PEM file: give raw bytes, or this key as tokenPublicKey")
    if _is_der_public_key(content):
        raise InvalidInput(*where, "it is a public key, with which anybody could sign: give it as tokenPublicKey")
    if len(content) < min(_SECRET_BYTES_MIN.values()):
        raise InvalidInput(*where, "give a secret key of at least 32 bytes, as `pulsar tokens create-secret-key` does")
    return content


def _is_der_public_key(content: bytes) -> bool:
    try:
        load_der_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        return False
    return True


def _public_keys(content: bytes, where: tuple[str, str], algorithm: str) -> list[PublicKey]:
    blocks = _PEM.findall(content)
    try:
        keys = [load_pem_public_key(block) for block in blocks] if blocks else [load_der_public_key(content)]
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidInput(*where, "give a public key as DER or PEM (X.509 SubjectPublicKeyInfo)") from None
    fitting: list[PublicKey] = []
    for key in keys:
        if isinstance(key, RSAPublicKey) and algorithm[:2] in {"RS", "PS"}:
            if not _RSA_BITS[0] <= key.key_size <= _RSA_BITS[1]:
                raise InvalidInput(
                    *where, f"it has {key.key_size} bits: give a key of {_RSA_BITS[0]} to {_RSA_BITS[1]}"
                )
            fitting.append(key)
        elif isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, _CURVES.get(algorithm, ())):
            fitting.append(key)
        else:
            raise InvalidInput(*where, f"it is no key for tokenPublicAlg={algorithm}: set its algorithm")
    return fitting
