"""Generates entries as clients of every kind send them to a broker."""

import random

from delayed_tracker.ledger.compression import Codec
from delayed_tracker.ledger.entry.frame import encode_entry
from delayed_tracker.ledger.messages.batch import Slot
from delayed_tracker.pulsar.v1.entry_pb2 import SingleMessageMetadata
from tests.ledger.messages.producer import PUBLISHED_AT_MS, batch, chunks, entry, marker, metadata_of, single

SEQUENCE_ID = 1000
KEYS = ["a", "b", "c", "schlüssel", "鍵"]


def sent(count: int, *, seed: int) -> list[bytes]:
    """Return at least ``count`` entries without broker metadata: keyed, plain, single, batched, and each rare form."""
    chance = random.Random(seed)
    return [
        *rare(chance),
        *(_batch(chance) if chance.random() < 0.5 else _single(chance) for _ in range(count)),
    ]


def rare(chance: random.Random) -> list[bytes]:
    """Return chunks, encryption, transactions, markers, no checksum, negative numbers and tombstones."""
    wrapped = [{"key": "k", "value": b"wrapped", "metadata": [{"key": "version", "value": "1"}]}]
    return [
        *chunks(chance.randbytes(300), 100, uuid="p1-7", codec=Codec.ZLIB, partition_key="chunked"),
        entry(metadata_of(encryption_keys=wrapped, encryption_algo="RSA", encryption_param=b"twelve bytes"), b"opaque"),
        single(b"in a transaction", txnid_most_bits=1, txnid_least_bits=2**64 - 1),
        marker(21, (1, 2**64 - 1)),
        encode_entry(metadata_of(partition_key="unchecked"), b"old client", checksum=False),
        single(b"", partition_key="a", null_value=True),
        single(b"", partition_key="b"),
        single(b"late", deliver_at_time=-1, event_time=2**63 - 1),
        single(b"bytes", partition_key="AP8=", partition_key_b64_encoded=True, ordering_key=b"\x00\xff"),
        single(b"typed", schema_version=bytes(8), replicated_from="elsewhere", replicate_to=["here", "there"]),
        single(b"no key", null_partition_key=True),
    ]


def _single(chance: random.Random) -> bytes:
    fields = {"partition_key": chance.choice(KEYS)} if chance.random() < 0.7 else {}
    if chance.random() < 0.3:
        fields["deliver_at_time"] = PUBLISHED_AT_MS + chance.randrange(10**9)
    return single(
        _text(chance),
        codec=chance.choice(list(Codec)),
        sequence_id=chance.randrange(2**63),
        properties=_properties(chance),
        **fields,
    )


def _batch(chance: random.Random) -> bytes:
    size = chance.randint(1, 6)
    return batch(
        [_slot(chance, at) for at in range(size)],
        codec=chance.choice(list(Codec)),
        sequence_id=SEQUENCE_ID,
        highest_sequence_id=SEQUENCE_ID + size - 1,
        event_time=3,
    )


def _slot(chance: random.Random, batch_index: int) -> Slot:
    body = _text(chance)
    # Producers count sequence ids on from the entry's, and Pulsar's parser ignores the ids in the slots.
    metadata = SingleMessageMetadata(
        payload_size=len(body), sequence_id=SEQUENCE_ID + batch_index, properties=_properties(chance)
    )
    if chance.random() < 0.7:
        metadata.partition_key = chance.choice(KEYS)
    if chance.random() < 0.5:
        metadata.event_time = chance.randrange(2**41)
    return Slot(batch_index, metadata, body)


def _properties(chance: random.Random) -> list[dict[str, str]]:
    return [{"key": f"k{at}", "value": chance.choice(["", "v", "ü"])} for at in range(chance.randrange(3))]


def _text(chance: random.Random) -> bytes:
    """Return compressible text, sometimes long, sometimes empty."""
    return b"tick tock " * chance.choice([0, 1, 7, 500]) + chance.randbytes(chance.randrange(4))
