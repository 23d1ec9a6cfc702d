"""Tests of encrypted payloads and their keys."""

import sys

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.compression import Codec, compress
from delayed_tracker.ledger.errors import DecryptionFailed, EntriesUnreadable, ErrorPolicy
from delayed_tracker.ledger.messages import MessageOptions, MessageReader, load_key_files
from delayed_tracker.ledger.messages.batch import join_batch
from delayed_tracker.ledger.messages.decryption import Decryptor
from tests.ledger.harness.list_ledger import topic_of
from tests.ledger.messages.producer import encrypted, entry, single, slot


def pem(key, encryption: KeySerializationEncryption | None = None) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())


@pytest.fixture(scope="module")
def alice() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def bob() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def test_each_of_the_keys_opens_a_payload(alice, bob):
    """Any of the message's keys opens the payload, even if another key is wrong."""
    metadata, payload = encrypted(b"hello", {"alice": alice.public_key(), "bob": bob.public_key()})

    assert Decryptor({"alice": pem(alice)}.get).decrypt(metadata, payload) == b"hello"
    assert Decryptor({"bob": pem(bob)}.get).decrypt(metadata, payload) == b"hello"
    assert Decryptor({"alice": pem(bob), "bob": pem(bob)}.get).decrypt(metadata, payload) == b"hello"


def test_a_key_is_loaded_once(alice):
    """A key is loaded once for many messages."""
    asked = []

    def loader(name: str) -> bytes:
        asked.append(name)
        return pem(alice)

    decryptor = Decryptor(loader)
    for _ in range(3):
        assert decryptor.decrypt(*encrypted(b"hello", {"alice": alice.public_key()})) == b"hello"

    assert asked == ["alice"]


def test_missing_keys_are_named(alice, bob):
    """The error for missing keys lists every usable key."""
    keys = {"alice": alice.public_key(), "bob": bob.public_key()}
    with pytest.raises(DecryptionFailed, match="the payload is encrypted: give private key 'alice' or 'bob'"):
        Decryptor({}.get).decrypt(*encrypted(b"", keys))


def test_keys_that_cannot_do_it_are_refused(alice, bob):
    """A wrong key, an elliptic-curve key, a signing key, a key with a password, or other text is refused."""
    message = encrypted(b"hello", {"alice": alice.public_key()})
    for key, why in {
        pem(bob): "the data key does not open with private key 'alice'",
        pem(ec.generate_private_key(ec.SECP256R1())): "key 'alice' is for ECIES, which is not supported",
        pem(ed25519.Ed25519PrivateKey.generate()): "key 'alice' is a Ed25519PrivateKey",
        pem(alice, BestAvailableEncryption(b"secret")): "no private key in PEM without a password",
        b"-----BEGIN": "no private key in PEM",
    }.items():
        with pytest.raises(DecryptionFailed, match=why):
            Decryptor({"alice": key}.get).decrypt(*message)


def test_a_payload_that_was_changed_is_refused(alice):
    """A payload with any changed byte, nonce, data key or length is refused."""
    decryptor = Decryptor({"alice": pem(alice)}.get)
    metadata, payload = encrypted(b"hello", {"alice": alice.public_key()})
    for at in range(len(payload)):
        with pytest.raises(DecryptionFailed, match="it was changed, or encrypted with another data key"):
            decryptor.decrypt(metadata, payload[:at] + bytes([payload[at] ^ 1]) + payload[at + 1 :])
    with pytest.raises(DecryptionFailed):
        decryptor.decrypt(metadata, payload[:3])
    for nonce in (b"", b"x" * 12, b"x" * 200):
        metadata.encryption_param = nonce
        with pytest.raises(DecryptionFailed):
            decryptor.decrypt(metadata, payload)


def test_encrypted_batches_and_pieces(alice):
    """Compressed batches are encrypted as a whole, and chunks one by one."""
    options = MessageOptions(keys={"alice": pem(alice)}.get)
    keys = {"alice": alice.public_key()}
    plain = join_batch([slot(0, b"a" * 50, partition_key="k"), slot(1, b"b" * 50)])
    fields = {"num_messages_in_batch": 2, "compression": Codec.ZSTD, "uncompressed_size": len(plain)}
    metadata, body = encrypted(compress(Codec.ZSTD, plain), keys, **fields)
    chunk = {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 6, "uncompressed_size": 6}
    pieces = [encrypted(part, keys, **chunk, chunk_id=number) for number, part in enumerate([b"abc", b"def"])]

    messages = MessageReader(
        topic_of({1: [entry(metadata, body), *(entry(*piece) for piece in pieces)]}), options
    ).read()

    assert [message.payload for message in messages] == [b"a" * 50, b"b" * 50, b"abcdef"]


def test_encrypted_messages_without_keys_are_bad_entries(alice):
    """Encrypted messages without keys raise or are listed, as the policy says."""
    log = topic_of({1: [single(b"open"), entry(*encrypted(b"hidden", {"alice": alice.public_key()}))]})

    with pytest.raises(
        EntriesUnreadable, match="entry 1:1: the payload is encrypted: give private key 'alice'"
    ) as told:
        list(MessageReader(log).read())

    assert "bookies" not in told.value.message
    assert told.value.message.endswith("; give on_error=skip to go on without them (of a command: --on-error skip)")

    reader = MessageReader(log, MessageOptions(on_error=ErrorPolicy.SKIP))
    assert [message.payload for message in reader.read()] == [b"open"]
    assert [(bad.ledger_id, bad.entry_id) for bad in reader.bad_entries] == [(1, 1)]


def test_keys_from_files(alice, tmp_path):
    """Keys are read from files by name, and a missing file is an error at once."""
    file = tmp_path / "alice.pem"
    file.write_bytes(pem(alice))

    assert load_key_files({"alice": file})("alice") == pem(alice)
    assert load_key_files({"alice": file})("bob") is None
    with pytest.raises(InvalidInput, match=r"bob\.pem.*give a PEM file that can be read"):
        load_key_files({"bob": tmp_path / "bob.pem"})


def test_the_package_is_needed_only_for_keys(monkeypatch):
    """The cryptography package is needed only with keys, and the error without it names the extra."""
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    monkeypatch.delitem(sys.modules, "delayed_tracker.ledger.messages.decryption")
    log = topic_of({1: [single(b"open")]})

    assert [message.payload for message in MessageReader(log).read()] == [b"open"]
    with pytest.raises(InvalidInput, match=r"install delayed-tracker\[encryption\]"):
        MessageReader(log, MessageOptions(keys={}.get))
