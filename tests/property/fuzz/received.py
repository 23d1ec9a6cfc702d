"""Decoders of what callers and operators send: requests, tokens, rules, settings."""

from google.protobuf.message import DecodeError

from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput
from delayed_tracker.service.errors import Unauthenticated
from delayed_tracker.service.grpc.wire import to_indexes, to_key
from delayed_tracker.service.security.quotas import Quotas
from delayed_tracker.service.security.rules import Rules
from delayed_tracker.service.security.token_keys import load_token_keys
from delayed_tracker.service.security.tokens import TokenVerifier
from delayed_tracker.service.settings.file import MalformedLine, parse_properties
from delayed_tracker.v1 import tracker_pb2
from delayed_tracker.wire.columns import pack_indexes
from delayed_tracker.wire.message_columns import ADD_COLUMNS, StreamedAdds, streamed_add
from tests.property.fuzz.decoder import Decoder
from tests.repository.deployment.tools import CONF
from tests.service.security.tokens import data_url, der, rsa_key, security, token

BATCH_MAX = 1_000


def adds() -> list[bytes]:
    head = tracker_pb2.AddMessagesRequest(tracker=tracker_pb2.TrackerRef(topic="t", subscription="s"), epoch=3)
    columns = pack_indexes([1_700_000_060_000 + row for row in range(20)], [5] * 20, list(range(20)))
    return [ADD_COLUMNS.encoded(head, columns), head.SerializeToString()]


def read_add(octets: bytes) -> object:
    """Read a request as the method does."""
    request = ADD_COLUMNS.FromString(octets)
    return to_key(request.head.tracker), to_indexes(request.columns, batch_max=BATCH_MAX)


def read_streamed_add(octets: bytes) -> object:
    request = StreamedAdds.FromString(octets)
    return to_indexes(request.columns, batch_max=BATCH_MAX)


def _verifier() -> TokenVerifier:
    given = security(token_public_key=data_url(der(rsa_key())))
    return TokenVerifier(given, load_token_keys(given))


VERIFIER = _verifier()


def tokens() -> list[bytes]:
    return [
        token("shop").encode(),
        token(["shop", "other"], nbf=5, aud=["a"]).encode(),
        token("shop", key=rsa_key(), algorithm="RS256").encode(),
        token("shop", headers={"crit": ["b64"], "b64": False}).encode(),
    ]


def read_token(octets: bytes) -> object:
    """Verify a token, which metadata brings as text of any octets."""
    return VERIFIER.verify(octets.decode("latin-1"))


def rules() -> list[bytes]:
    return [
        b'{"rules": [{"role": "shop", "topicPrefix": "persistent://shop/", "actions": ["dispatch", "read"]}]}',
        b'{"rules": [{"role": "a", "topic": "t", "subscription": "s", "actions": ["admin"]}, {"role": "b", "actions": ["read"]}]}',
    ]


def quotas() -> list[bytes]:
    return [
        b'{"default": {"callsPerSecond": 500}, "roles": {"shop": {"indexesPerSecond": 20, "bytesPerSecond": 7}}}',
        b'{"roles": {"a": {"openTrackersMax": 0, "pendingIndexesMax": 9007199254740992}, "b": {}}}',
    ]


def settings() -> list[bytes]:
    text = (CONF / "tracker.conf").read_bytes()
    return [text[:3_000], b"a=b\\\n c\n", b"a\\u00fc=\\ud83d\\ude00", b"! comment\nkey : value\n", "\ufeffa=b".encode()]


DECODERS = (
    Decoder("request that adds", read_add, (DecodeError, DelayedTrackerError), adds),
    Decoder("request of a stream that adds", read_streamed_add, (DecodeError, DelayedTrackerError), lambda: [
        streamed_add(octets) for octets in adds()
    ]),
    Decoder("token", read_token, (Unauthenticated,), tokens),
    Decoder("rules of authorization", Rules.parse, (InvalidInput,), rules),
    Decoder("quotas of principals", Quotas.parse, (InvalidInput,), quotas),
    Decoder("file of settings", parse_properties, (MalformedLine,), settings),
)  # fmt: skip
