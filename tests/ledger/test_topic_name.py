"""Tests of names of topics and subscriptions in metadata paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.topic_name import TopicName, decode_name, encode_name

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("plain-name_1.x*", "plain-name_1.x*"),
        ("two words", "two+words"),
        ("a/b", "a%2Fb"),
        ("100%", "100%25"),
        ("a+b", "a%2Bb"),
        ("~home", "%7Ehome"),
        ("grün", "gr%C3%BCn"),
        ("日本", "%E6%97%A5%E6%9C%AC"),
        ("%2F", "%252F"),
    ],
)
def test_encoding_is_javas(name, encoded):
    """Encoding gives the result of java.net.URLEncoder, also where Python's differs."""
    assert encode_name(name) == encoded
    assert decode_name(encoded) == name


@given(names)
def test_names_round_trip(name):
    """Any name round-trips, and no encoded name has a slash."""
    assert decode_name(encode_name(name)) == name
    assert "/" not in encode_name(name)


def test_half_a_surrogate_pair_is_refused():
    """Half of a surrogate pair is refused, because UTF-8 cannot encode it."""
    with pytest.raises(InvalidInput, match="UTF-8"):
        encode_name("\ud800")


@pytest.mark.parametrize(
    ("topic", "full", "managed_ledger"),
    [
        ("persistent://lab/main/orders", "persistent://lab/main/orders", "lab/main/persistent/orders"),
        ("lab/main/orders", "persistent://lab/main/orders", "lab/main/persistent/orders"),
        ("orders", "persistent://public/default/orders", "public/default/persistent/orders"),
        (
            "persistent://lab/main/two words%",
            "persistent://lab/main/two words%",
            "lab/main/persistent/two+words%25",
        ),
        (
            "persistent://lab/cluster/main/old/name",
            "persistent://lab/cluster/main/old/name",
            "lab/cluster/main/persistent/old%2Fname",
        ),
    ],
)
def test_topics_and_their_managed_ledgers(topic, full, managed_ledger):
    """Full, short and bare names are parsed, also with a cluster."""
    parsed = TopicName.parse(topic)

    assert str(parsed) == full
    assert parsed.managed_ledger == managed_ledger
    if "old" not in topic:
        assert TopicName.of_managed_ledger(managed_ledger) == parsed


def test_topics_with_a_cluster_are_found_by_their_managed_ledger():
    """A topic with the cluster between tenant and namespace is found by its managed ledger."""
    topic = TopicName.of_managed_ledger("lab/cluster/main/persistent/orders")

    assert str(topic) == "persistent://lab/cluster/main/orders"


@pytest.mark.parametrize(
    "name", ["lab/main/persistent", "lab/main/other/x", "a/b/c/d/persistent/x", "", "lab//persistent/x"]
)
def test_other_paths_are_no_topics(name):
    """A path with another domain, of a cursor, or with an empty part is not a topic."""
    assert TopicName.of_managed_ledger(name) is None


@pytest.mark.parametrize(
    "topic", ["", "persistent://", "persistent://lab/main", "persistent://lab//x", "lab/main", "a//b"]
)
def test_incomplete_topics_are_refused(topic):
    """An incomplete topic is refused with the expected form."""
    with pytest.raises(InvalidInput, match="persistent://tenant/namespace/name"):
        TopicName.parse(topic)


def test_topics_that_are_no_text_are_refused():
    """Half of a surrogate pair (a byte that is not UTF-8 on a command line) is refused with the field's name."""
    with pytest.raises(InvalidInput, match="give a name that can be written in UTF-8") as refused:
        TopicName.parse("persistent://lab/main/\udcff")
    assert refused.value.field == "topic"


def test_topics_without_ledgers_are_refused():
    """Non-persistent topics are refused, because they store nothing."""
    with pytest.raises(InvalidInput, match="only topics that start with persistent://"):
        TopicName.parse("non-persistent://lab/main/orders")


@pytest.mark.parametrize(
    ("topic", "holds_messages"),
    [
        ("persistent://pulsar/system/__transaction_log_0", False),
        ("persistent://lab/main/orders-workers__transaction_pending_ack", False),
        ("persistent://lab/main/__transaction_buffer_snapshot", True),
        ("persistent://lab/main/__transaction_log_0", True),
        ("persistent://lab/main/orders", True),
    ],
)
def test_ledgers_of_transaction_state_hold_no_messages(topic, holds_messages):
    """Ledgers of transaction state are recognized by name, because their entries start like messages."""
    assert TopicName.parse(topic).holds_messages is holds_messages


@given(tenant=st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=60), local=names)
def test_every_topic_is_found_again_by_its_managed_ledger(tenant, local):
    """Every topic, with a local name of any text and length, is found by its managed ledger."""
    topic = TopicName(tenant, "main", local * 5)

    assert TopicName.of_managed_ledger(topic.managed_ledger) == topic
