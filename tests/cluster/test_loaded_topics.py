"""Tests of what brokers say about their loaded topics: all of them, fresh, bounded."""

import json
import ssl
import threading

import pytest

from delayed_tracker.cluster import loaded_topics
from delayed_tracker.cluster.address import Cluster
from delayed_tracker.cluster.errors import BrokerUnavailable
from delayed_tracker.cluster.loaded_topics import ask_loaded_topics
from delayed_tracker.core.values.errors import InvalidInput
from tests.cluster.brokers import told_topics
from tests.cluster.made_cluster import TOPIC, MadeCluster


@pytest.fixture
def told():
    with told_topics() as made:
        yield made


async def register(made: MadeCluster, value: bytes, name: str = "127.0.0.1:8080") -> None:
    await made.set(f"{made.address.brokers}/{name}", value)


async def test_registered_brokers_are_asked(made, told):
    """Each broker of ZooKeeper is asked once; topics are by full name."""
    told.loaded.add(TOPIC)
    with told_topics() as other:
        await register(made, told.registration)
        await register(made, other.registration, "b:1")
        found = await ask_loaded_topics(made.cluster)
        assert (told.asked_count, other.asked_count) == (1, 1)
        assert found.broker_of == {str(TOPIC): told.url}
        assert set(found.brokers) == {told.url, other.url}


async def test_without_brokers_nothing_is_loaded(made):
    """A cluster whose brokers are all stopped has no loaded topics."""
    found = await ask_loaded_topics(made.cluster)
    assert (found.broker_of, found.brokers) == ({}, ())


async def test_named_brokers_replace_the_registered(made, told):
    """With --admin the nodes of ZooKeeper do not matter; the token is sent."""
    await register(made, b"no json")
    await register(made, json.dumps({"webServiceUrl": "http://127.0.0.1:1"}).encode(), "b:2")
    named = made.address.with_admin(told.url)
    assert (await ask_loaded_topics(Cluster(named, made.cluster.client))).brokers == (told.url,)


async def test_the_token_of_a_file_is_sent(made, told, tmp_path):
    """Without it the broker refuses, and the message says how to give one."""
    told.token = "secret"
    address = made.address.with_admin(told.url)
    with pytest.raises(BrokerUnavailable, match=r"refuses .* with 401; give a superuser's token with adminTokenFile"):
        await ask_loaded_topics(Cluster(address, made.cluster.client))
    file = tmp_path / "token"
    file.write_text("secret\n", encoding="ascii")
    text = f"{made.address.text}&admin={told.url}&adminTokenFile={file}"
    named = type(address).parse(text)
    assert (await ask_loaded_topics(Cluster(named, made.cluster.client))).brokers == (told.url,)
    file.write_text("two words", encoding="ascii")
    with pytest.raises(InvalidInput, match="give a file with one token"):
        await ask_loaded_topics(Cluster(named, made.cluster.client))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((404, b"no"), "answered .* with 404 'no'"),
        ((500, b"x" * 10_000), "answered .* with 500"),
        ((307, b""), "answered .* with 307"),
        ((200, b""), "with no JSON"),
        ((200, b"<html>"), "with no JSON"),
        ((200, b"[]"), "with no topics by namespace"),
        ((200, b'{"t/ns": ["a"]}'), "with no topics by namespace"),
        ((200, b"{}" + b" " * 2_000), "is above 1000 bytes"),
    ],
)
async def test_answers_that_say_nothing(made, told, monkeypatch, answer, said):
    """An answer that is no list of topics never means that a topic is not loaded, however large it is."""
    monkeypatch.setattr(loaded_topics, "ANSWER_BYTES_MAX", 1_000)
    told.status, told.body = answer
    await register(made, told.registration)
    with pytest.raises(BrokerUnavailable, match=said) as refused:
        await ask_loaded_topics(made.cluster)
    assert len(refused.value.message) < 1_000


async def test_a_broker_that_does_not_answer(made, told):
    """A silent broker ends in time, a dead one at once; both could have the topic."""
    released = threading.Event()
    told.on_ask = lambda: released.wait(30)
    await register(made, told.registration)
    with pytest.raises(BrokerUnavailable, match=r"did not answer .* within 0\.3 s|timed out"):
        await ask_loaded_topics(made.cluster, timeout_s=0.3)
    released.set()
    await register(made, json.dumps({"webServiceUrl": "http://127.0.0.1:1"}).encode())
    with pytest.raises(BrokerUnavailable, match=r"Connection refused.*; start it, or name all running brokers"):
        await ask_loaded_topics(made.cluster)


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b'{"webServiceUrl": 5}', b'{"webServiceUrl": "localhost"}'])
async def test_registrations_without_an_address(made, value):
    """A broker whose address is unknown cannot be asked, and is not left out."""
    await register(made, value)
    with pytest.raises(BrokerUnavailable, match="has no webServiceUrl; name all brokers with --admin"):
        await ask_loaded_topics(made.cluster)


async def test_files_of_tls_are_checked(made, tmp_path):
    """Certificates that are none are an error of the option."""
    file = tmp_path / "ca.pem"
    file.write_text("none", encoding="ascii")
    address = type(made.address).parse(f"{made.address.text}&admin=https://127.0.0.1:1&adminCa={file}")
    with pytest.raises(InvalidInput, match=r"adminCa: .*give a file with certificates") as refused:
        await ask_loaded_topics(Cluster(address, made.cluster.client))
    assert isinstance(refused.value.__cause__, ssl.SSLError)
