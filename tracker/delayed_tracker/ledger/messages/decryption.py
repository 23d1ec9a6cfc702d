"""Decrypts payloads that producers encrypted.

A producer creates a data key and encrypts payloads with it (AES-GCM; the nonce is in the metadata). It sends the data
key along, encrypted with one or more public keys. Any of the private keys decrypts it: RSA keys by OAEP with SHA-1,
which all Pulsar clients use. Elliptic-curve keys (ECIES) are rejected, because clients use different parameters.
Needs the extra ``encryption``.
Source: MessageCryptoBc.java (decryptDataKey, decryptData).
"""

from collections import OrderedDict
from typing import Final

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from delayed_tracker.ledger.errors import DecryptionFailed
from delayed_tracker.ledger.messages.keys import KeyLoader, missing_key
from delayed_tracker.pulsar.v1.entry_pb2 import EncryptionKeys, MessageMetadata

_DATA_KEYS_KEPT: Final = 64
"""Size of the cache of data keys. Producers change their data key every few hours. Decrypting a data key takes a
millisecond, decrypting a payload with it microseconds."""

_OAEP: Final = padding.OAEP(mgf=padding.MGF1(SHA1()), algorithm=SHA1(), label=None)  # noqa: S303  # Pulsar's choice


class Decryptor:
    """Decryptor of payloads with private keys. Not thread-safe."""

    def __init__(self, keys: KeyLoader) -> None:
        self._keys = keys
        self._private_keys: dict[str, RSAPrivateKey] = {}
        self._data_keys: OrderedDict[tuple[str, bytes], AESGCM] = OrderedDict()

    def decrypt(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        """Decrypt a payload; the result is still compressed.

        Args:
            metadata: the entry's metadata; it contains encryption keys.
            payload: the entry's payload.
        Raises:
            DecryptionFailed: the loader has none of the keys, a key does not match, or the payload was changed.
        """
        data_key = self._data_key(metadata)
        try:
            return data_key.decrypt(metadata.encryption_param, payload, None)
        except (InvalidTag, ValueError) as error:
            why = str(error) or "it was changed, or encrypted with another data key"
            raise DecryptionFailed(f"{len(payload)} encrypted bytes do not decrypt: {why}") from error

    def _data_key(self, metadata: MessageMetadata) -> AESGCM:
        failure: DecryptionFailed | None = None
        for wrapped in metadata.encryption_keys:
            known = self._data_keys.get((wrapped.key, wrapped.value))
            if known is not None:
                self._data_keys.move_to_end((wrapped.key, wrapped.value))
                return known
            try:
                private_key = self._private_key(wrapped.key)
                if private_key is not None:
                    return self._unwrap(wrapped, private_key)
            except DecryptionFailed as error:
                failure = error  # another key may work
        raise failure or missing_key(metadata)

    def _private_key(self, name: str) -> RSAPrivateKey | None:
        known = self._private_keys.get(name)
        pem = None if known is not None else self._keys(name)
        if pem is None:
            return known
        try:
            key = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise DecryptionFailed(f"key {name!r} is no private key in PEM without a password: {error}") from error
        if isinstance(key, EllipticCurvePrivateKey):
            raise DecryptionFailed(f"key {name!r} is for ECIES, which is not supported; only RSA keys are")
        if not isinstance(key, RSAPrivateKey):
            raise DecryptionFailed(f"key {name!r} is a {type(key).__name__}; only RSA keys can decrypt data keys")
        self._private_keys[name] = key
        return key

    def _unwrap(self, wrapped: EncryptionKeys, private_key: RSAPrivateKey) -> AESGCM:
        try:
            data_key = AESGCM(private_key.decrypt(wrapped.value, _OAEP))
        except ValueError as error:
            raise DecryptionFailed(f"the data key does not open with private key {wrapped.key!r}: {error}") from error
        self._data_keys[wrapped.key, wrapped.value] = data_key
        if len(self._data_keys) > _DATA_KEYS_KEPT:
            self._data_keys.popitem(last=False)
        return data_key
