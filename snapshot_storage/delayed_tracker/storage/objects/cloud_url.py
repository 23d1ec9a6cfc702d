"""Parses the URLs of object stores: ``s3://BUCKET/PREFIX?key=value``, and the same with ``gs`` and ``az``.

Keys of all stores are ``endpoint``, ``requests`` and ``timeout``; S3 also has ``region``, Azure ``account``. Credentials
are no part of a URL, which is logged: they come from the environment or from the machine, as for the cloud's own tools.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from delayed_tracker.core.values.errors import InvalidInput

REQUESTS: Final = 64
"""Requests that one process sends at the same time, unless the URL has another number."""
REQUESTS_MAX: Final = 1_000
TIMEOUT_S: Final = 30
"""Time for one request, unless the URL has another number."""
TIMEOUT_MAX_S: Final = 600
PREFIX_CHARACTERS_MAX: Final = 500
"""Keys below the prefix have up to 300 characters, and stores take 1,024."""

_KEYS_OF_ALL: Final = ("endpoint", "requests", "timeout")
_OWN_KEYS: Final = {"s3": ("region",), "gs": (), "az": ("account",)}
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")
_PREFIX: Final = re.compile(r"(?:[A-Za-z0-9_=,-][A-Za-z0-9_.=,-]*(?:/(?!$)|$))*")
_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


@dataclass(frozen=True, slots=True)
class CloudUrl:
    """Place of a storage in an object store, and how to reach it."""

    scheme: str
    bucket: str
    """Bucket of S3 or GCS, container of Azure."""
    prefix: str
    """Begin of the keys of all objects, without a slash at the end; empty for the whole bucket."""
    endpoint: str = ""
    """URL of the server; empty for the cloud's own."""
    region: str = ""
    account: str = ""
    requests: int = REQUESTS
    timeout_s: int = TIMEOUT_S

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}{'/' if self.prefix else ''}{self.prefix}"


def parse_cloud_url(scheme: str, rest: str) -> CloudUrl:
    """Return the parts of a URL.

    Args:
        scheme: ``s3``, ``gs`` or ``az``.
        rest: the URL after the scheme and its colon.
    Raises:
        InvalidInput: a part is missing, malformed, unknown or there twice. No value of a key is shown that may be secret.
    """
    place, _, query = rest.partition("?")
    shown = f"{scheme}:{place}"
    if not place.startswith("//"):
        raise InvalidInput("storage URL", shown, f"write {scheme}://BUCKET/PREFIX")
    bucket, _, prefix = place.removeprefix("//").partition("/")
    prefix = prefix.removesuffix("/")
    if not _BUCKET.fullmatch(bucket):
        raise InvalidInput(
            "storage URL", shown, f"write {scheme}://BUCKET/PREFIX, with the name of a bucket of 2 to 222 characters"
        )
    if not _PREFIX.fullmatch(prefix) or len(prefix) > PREFIX_CHARACTERS_MAX:
        raise InvalidInput(
            "storage URL",
            shown,
            f"give a prefix of up to {PREFIX_CHARACTERS_MAX} letters, digits and '_.=,-', with single slashes between its "
            "parts, none of which begins with a dot",
        )
    values = _values(scheme, query)
    return CloudUrl(
        scheme,
        bucket,
        prefix,
        _endpoint(values.get("endpoint", "")),
        _name("region", values.get("region", "")),
        _name("account", values.get("account", "")),
        _number("requests", values.get("requests", str(REQUESTS)), REQUESTS_MAX),
        _number("timeout", values.get("timeout", str(TIMEOUT_S)), TIMEOUT_MAX_S),
    )


def _values(scheme: str, query: str) -> dict[str, str]:
    keys, values = (*_KEYS_OF_ALL, *_OWN_KEYS[scheme]), {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in keys:
            raise InvalidInput(
                f"key of a storage URL of {scheme}:",
                key,
                f"give one of {', '.join(keys)}; credentials come from the environment or the machine, not from the URL",
            )
        if key in values:
            raise InvalidInput(f"key of a storage URL of {scheme}:", key, "give it once")
        values[key] = value
    return values


def _endpoint(value: str) -> str:
    if not value:
        return ""
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    else:
        usable = usable and not (parts.query or parts.fragment or parts.username or parts.password)
    if not usable:
        # It may have a password in it, which must not be shown.
        raise InvalidInput("endpoint of a storage URL", "(not shown)", "write http://HOST:PORT or https://HOST")
    return value.rstrip("/")


def _name(key: str, value: str) -> str:
    if value and not _NAME.fullmatch(value):
        raise InvalidInput(f"{key} of a storage URL", value, "give letters, digits and '-', 64 at most")
    return value


def _number(key: str, value: str, most: int) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10 and 1 <= int(value) <= most):
        raise InvalidInput(f"{key} of a storage URL", value, f"give a whole number from 1 to {most}")
    return int(value)
