"""Tests of interceptors by name: Pulsar's classes, short names, and entry points of other distributions."""

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.entry.interceptor_names import load_interceptors
from delayed_tracker.ledger.entry.interceptors import (
    AppendBrokerTimestampMetadataInterceptor,
    AppendIndexMetadataInterceptor,
)

PULSAR = "org.apache.pulsar.common.intercept."


@pytest.fixture
def outsider(tmp_path, monkeypatch):
    """Install a distribution with two interceptors, one of which cannot be loaded, and a class that is not one."""
    (tmp_path / "outside_broker.py").write_text(
        "from delayed_tracker.ledger.entry.interceptors import BrokerEntryMetadataInterceptor\n"
        "class Zero(BrokerEntryMetadataInterceptor):\n"
        "    def intercept(self, metadata, num_messages, *, now_ms):\n"
        "        return metadata\n"
        "class Nothing: pass\n"
    )
    information = tmp_path / "outside_broker-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-broker\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[delayed_tracker.broker_entry_metadata_interceptor]\n"
        "zero = outside_broker:Zero\nlost = outside_broker:Lost\nnothing = outside_broker:Nothing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


def kinds(*names: str) -> list[type]:
    return [type(interceptor) for interceptor in load_interceptors(names)]


def test_pulsars_class_names_and_short_ones():
    """Names with and without the package load the same classes, and each load creates new interceptors."""
    both = [AppendBrokerTimestampMetadataInterceptor, AppendIndexMetadataInterceptor]
    assert kinds(*(PULSAR + kind.__name__ for kind in both)) == both
    assert kinds(*(kind.__name__ for kind in both)) == both
    assert kinds("broker-timestamp", "index") == both
    assert kinds("index", PULSAR + "AppendIndexMetadataInterceptor") == both[1:]
    assert load_interceptors([]) == ()
    assert load_interceptors(["index"])[0] is not load_interceptors(["index"])[0]


def test_others_are_found_by_entry_point(outsider):
    """An interceptor of another distribution is found by its entry-point name and by its class."""
    assert [kind.__name__ for kind in kinds("zero", "index")] == ["Zero", "AppendIndexMetadataInterceptor"]
    assert [kind.__name__ for kind in kinds("outside_broker.Zero", "zero")] == ["Zero"]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("indx", "known are broker-timestamp, index, .*, zero"),
        ("lost", "outside_broker:Lost cannot be loaded"),
        ("nothing", "a class with a method intercept"),
    ],
)
def test_what_cannot_be_used_is_an_error(outsider, name, remedy):
    """The error for an unusable interceptor names the setting, the name, and the remedy."""
    with pytest.raises(InvalidInput, match=remedy) as error:
        load_interceptors([name])
    assert error.value.field == "brokerEntryMetadataInterceptors"
