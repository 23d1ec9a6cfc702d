"""Loaders of private keys, for readers of encrypted messages."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.whole_file import read_whole
from delayed_tracker.ledger.errors import DecryptionFailed
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata

KEY_BYTES_MAX: Final = 2**16
"""Largest key file. A larger file is not a private key: one of 16,384 bits has 13 kB."""


class KeyLoader(Protocol):
    """Loader of private keys by the names that producers gave the public keys. ``{"name": pem}.get`` is a loader."""

    def __call__(self, name: str, /) -> bytes | None:
        """Return the private key as PEM, without a password; None if there is no key of this name."""


def load_key_files(files: Mapping[str, str | Path]) -> KeyLoader:
    """Return a loader of keys that are stored in files.

    Args:
        files: key name -> PEM file; the files are read once, in this call.
    Raises:
        InvalidInput: a file cannot be read, or is larger than a key.
    """
    keys: dict[str, bytes] = {}
    for name, file in files.items():
        try:
            keys[name] = read_whole(file, KEY_BYTES_MAX)
        except OSError as error:
            raise InvalidInput("key file", str(file), f"give a PEM file that can be read: {error.strerror}") from error
    return keys.get


def missing_key(metadata: MessageMetadata) -> DecryptionFailed:
    """Return the error for a payload that none of the available keys can decrypt."""
    names = " or ".join(repr(wrapped.key) for wrapped in metadata.encryption_keys)
    return DecryptionFailed(f"the payload is encrypted: give private key {names}")
