"""Makes entries as producers do: batched, compressed, split into chunks, and encrypted, in that order."""

from collections.abc import Mapping, Sequence

from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA1

from delayed_tracker.ledger.compression import Codec, compress
from delayed_tracker.ledger.entry.frame import encode_entry
from delayed_tracker.ledger.messages.batch import Slot, join_batch
from delayed_tracker.pulsar.v1.entry_pb2 import BrokerEntryMetadata, MessageMetadata, SingleMessageMetadata

PUBLISHED_AT_MS = 1_700_000_000_000
DATA_KEY = bytes(range(32))
NONCE = b"twelve bytes"


def metadata_of(**fields) -> MessageMetadata:
    return MessageMetadata(**({"producer_name": "p1", "sequence_id": 7, "publish_time": PUBLISHED_AT_MS} | fields))


def single(payload: bytes, *, codec: Codec = Codec.NONE, index: int | None = None, **fields) -> bytes:
    """Return an entry that is not a batch."""
    metadata = metadata_of(uncompressed_size=len(payload), **fields)
    return entry(metadata, payload, codec=codec, index=index)


def slot(batch_index: int, body: bytes, **fields) -> Slot:
    return Slot(batch_index, SingleMessageMetadata(payload_size=len(body), **fields), body)


def batch(slots: Sequence[Slot], *, codec: Codec = Codec.NONE, index: int | None = None, **fields) -> bytes:
    """Return a batch entry; by default, its message count is the number of slots."""
    payload = join_batch(slots)
    metadata = metadata_of(**({"num_messages_in_batch": len(slots), "uncompressed_size": len(payload)} | fields))
    return entry(metadata, payload, codec=codec, index=index)


def chunks(payload: bytes, chunk_bytes: int, *, uuid: str, codec: Codec = Codec.NONE, **fields) -> list[bytes]:
    """Return the entries with the chunks of one message."""
    body = compress(codec, payload)
    pieces = [body[at : at + chunk_bytes] for at in range(0, len(body), chunk_bytes)]
    return [
        entry(
            metadata_of(
                uncompressed_size=len(payload),
                uuid=uuid,
                chunk_id=number,
                num_chunks_from_msg=len(pieces),
                total_chunk_msg_size=len(body),
                compression=codec,
                **fields,
            ),
            piece,
        )
        for number, piece in enumerate(pieces)
    ]


def entry(metadata: MessageMetadata, payload: bytes, *, codec: Codec = Codec.NONE, index: int | None = None) -> bytes:
    if codec is not Codec.NONE:
        metadata.compression = codec
    stamp = None if index is None else BrokerEntryMetadata(broker_timestamp=PUBLISHED_AT_MS + 5, index=index)
    return encode_entry(metadata, compress(codec, payload), broker_metadata=stamp)


def encrypted(payload: bytes, public_keys: Mapping[str, RSAPublicKey], **fields) -> tuple[MessageMetadata, bytes]:
    """Return metadata and payload of a message that is encrypted for the owners of some keys."""
    metadata = metadata_of(**({"encryption_param": NONCE, "uncompressed_size": len(payload)} | fields))
    oaep = padding.OAEP(padding.MGF1(SHA1()), SHA1(), None)
    for name, public_key in public_keys.items():
        metadata.encryption_keys.add(key=name, value=public_key.encrypt(DATA_KEY, oaep))
    return metadata, AESGCM(DATA_KEY).encrypt(NONCE, payload, None)


def marker(kind: int, txn: tuple[int, int], *, index: int | None = None) -> bytes:
    """Return a marker for the end of a transaction: 21 commits, 22 aborts."""
    metadata = metadata_of(
        producer_name="pulsar.txn.marker",
        sequence_id=2**64 - 1,
        marker_type=kind,
        txnid_most_bits=txn[0],
        txnid_least_bits=txn[1],
    )
    return entry(metadata, b"", index=index)
