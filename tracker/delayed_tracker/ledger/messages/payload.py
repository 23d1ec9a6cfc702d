"""From an entry's payload to what the producer put in: decrypted, put together, decompressed."""

from typing import Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.compression import decompress
from delayed_tracker.ledger.errors import PayloadInvalid
from delayed_tracker.ledger.messages.keys import KeyLoader, missing_key
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata

RAISE_MESSAGE_BYTES: Final = (
    "if such messages were sent, give a higher message_bytes_max (of a command: --message-bytes-max)"
)
"""The remedy for messages that are larger than the limit."""


class PayloadDecoder:
    """Undoes encryption and compression. Not thread-safe.

    Args:
        keys: finds private keys; None when encrypted messages are to be refused.
        message_bytes_max: a payload that claims to become larger is refused before anything is allocated.
    Raises:
        InvalidInput: there is a loader of keys, but the package that decrypts is not installed.
    """

    def __init__(self, keys: KeyLoader | None, *, message_bytes_max: int) -> None:
        self._message_bytes_max = message_bytes_max
        self._decryptor = None
        if keys is not None:
            try:
                # The only part that needs the package, which not everybody wants to install.
                from delayed_tracker.ledger.messages.decryption import Decryptor  # noqa: PLC0415
            except ModuleNotFoundError as error:
                raise InvalidInput("keys", error.name, "install delayed-tracker[encryption] to decrypt") from error
            self._decryptor = Decryptor(keys)

    def decrypt(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        """The payload as it was before encryption; the same bytes if it never was.

        Raises:
            DecryptionFailed: there is no key for it, or none that fits.
        """
        if not metadata.encryption_keys:
            return payload
        if self._decryptor is None:
            raise missing_key(metadata)
        return self._decryptor.decrypt(metadata, payload)

    def decompress(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        """The payload as it was before compression.

        Raises:
            CompressedDataInvalid: the bytes do not decompress to the size that the metadata promises.
            PayloadInvalid: the size is above the limit; the message says how to raise it.
        """
        # What is not compressed is as large as it is, whatever the producer says.
        size = metadata.uncompressed_size if metadata.compression else len(payload)
        if size > self._message_bytes_max:
            raise PayloadInvalid(
                f"{size} bytes uncompressed are more than the limit of {self._message_bytes_max}; {RAISE_MESSAGE_BYTES}"
            )
        if not metadata.compression:
            return payload
        return decompress(metadata.compression, payload, size, size_max=self._message_bytes_max)
