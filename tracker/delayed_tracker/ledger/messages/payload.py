"""Decodes an entry's payload: decrypts it and decompresses it."""

from typing import Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.compression import decompress
from delayed_tracker.ledger.errors import PayloadInvalid
from delayed_tracker.ledger.messages.keys import KeyLoader, missing_key
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata

RAISE_MESSAGE_BYTES: Final = (
    "if such messages were sent, give a higher message_bytes_max (of a command: --message-bytes-max)"
)
"""Advice for messages that are larger than the limit."""


class PayloadDecoder:
    """Decoder that reverses encryption and compression. Not thread-safe.

    Args:
        keys: finds private keys; None if encrypted messages are rejected.
        message_bytes_max: a payload that claims to decompress to more is rejected before memory is allocated.
    Raises:
        InvalidInput: ``keys`` is given, but the package for decryption is not installed.
    """

    def __init__(self, keys: KeyLoader | None, *, message_bytes_max: int) -> None:
        self._message_bytes_max = message_bytes_max
        self._decryptor = None
        if keys is not None:
            try:
                # Only this module needs the package, which is an optional dependency.
                from delayed_tracker.ledger.messages.decryption import Decryptor  # noqa: PLC0415
            except ModuleNotFoundError as error:
                raise InvalidInput("keys", error.name, "install delayed-tracker[encryption] to decrypt") from error
            self._decryptor = Decryptor(keys)

    def decrypt(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        """Decrypt a payload; return the same bytes if it is not encrypted.

        Raises:
            DecryptionFailed: there is no key for it, or none that matches.
        """
        if not metadata.encryption_keys:
            return payload
        if self._decryptor is None:
            raise missing_key(metadata)
        return self._decryptor.decrypt(metadata, payload)

    def decompress(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        """Decompress a payload.

        Raises:
            CompressedDataInvalid: the bytes do not decompress to the size in the metadata.
            PayloadInvalid: the size is above the limit; the message states how to raise it.
        """
        # If the payload is not compressed, its own length counts, whatever size the producer wrote.
        size = metadata.uncompressed_size if metadata.compression else len(payload)
        if size > self._message_bytes_max:
            raise PayloadInvalid(
                f"{size} bytes uncompressed are more than the limit of {self._message_bytes_max}; {RAISE_MESSAGE_BYTES}"
            )
        if not metadata.compression:
            return payload
        return decompress(metadata.compression, payload, size, size_max=self._message_bytes_max)
