"""Where private keys come from: whoever reads encrypted messages brings a loader."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import DecryptionFailed
from delayed_tracker.ledger.whole_file import read_whole
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata

KEY_BYTES_MAX: Final = 2**16
"""A larger file is no private key: one of 16,384 bits has 13 kB."""


class KeyLoader(Protocol):
    """Finds private keys by the names that producers gave the public ones. ``{"name": pem}.get`` is one."""

    def __call__(self, name: str, /) -> bytes | None:
        """The private key as PEM, without a password; None when there is no key of this name."""


def load_key_files(files: Mapping[str, str | Path]) -> KeyLoader:
    """A loader of keys that lie in files.

    Args:
        files: key name -> PEM file; read here, once.
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
    """The error for a payload that none of the keys at hand can open."""
    names = " or ".join(repr(wrapped.key) for wrapped in metadata.encryption_keys)
    return DecryptionFailed(f"the payload is encrypted: give private key {names}")
