"""Tests of interceptors of broker metadata: the values they set and the undo of failed adds."""

from dataclasses import replace

import numpy as np
import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.entry.interceptors import (
    AppendBrokerTimestampMetadataInterceptor,
    AppendIndexMetadataInterceptor,
    BrokerEntryMetadataInterceptor,
    BrokerMetadataColumns,
    broker_metadata_of,
    intercept_all,
)
from delayed_tracker.ledger.errors import MetadataInvalid
from delayed_tracker.pulsar.v1.entry_pb2 import BrokerEntryMetadata

EXAMPLE_B = bytes.fromhex(
    "0e020000000908fbd095ffbc311029 0e017cc828cb000000150a02703110071880d095ffbc319801e0a499ffbc3168656c6c6f"
)


def counts(*values: int):
    return np.array(values, np.int64)


def test_the_index_is_that_of_the_last_message():
    """The index of an entry is that of its last message: 0 for a first single message, 2 for a first batch of three."""
    interceptor = AppendIndexMetadataInterceptor()
    assert intercept_all([interceptor], counts(1, 3, 1), now_ms=7).index.tolist() == [0, 3, 4]
    assert intercept_all([interceptor], counts(2), now_ms=7).index.tolist() == [6]
    assert intercept_all([AppendIndexMetadataInterceptor()], counts(3), now_ms=7).index.tolist() == [2]


def test_failed_adds_are_counted_back():
    """After a failed add, the next entries get the same numbers."""
    interceptor = AppendIndexMetadataInterceptor()
    intercept_all([interceptor], counts(1, 2), now_ms=7)
    intercept_all([interceptor], counts(5), now_ms=7)
    interceptor.add_failed(counts(5))
    assert intercept_all([interceptor], counts(1), now_ms=7).index.tolist() == [3]


def test_the_timestamp_is_the_time_of_the_add():
    """All entries of a batch get the time of the add, and no index."""
    metadata = intercept_all([AppendBrokerTimestampMetadataInterceptor()], counts(1, 9), now_ms=1_700_000_000_123)
    assert metadata.broker_timestamp_ms.tolist() == [1_700_000_000_123] * 2
    assert metadata.index is None


@pytest.mark.parametrize(
    ("properties", "last_index", "expected"),
    [({}, None, 0), ({"index": "41"}, None, 42), ({"index": "41"}, 50, 51), ({"index": "41"}, 7, 42), ({}, 7, 8)],
)
def test_the_index_goes_on_from_property_or_last_entry(properties, last_index, expected):
    """The index continues from the larger of the property and the last entry; from -1 if neither exists."""
    last = BrokerEntryMetadata(broker_timestamp=5)
    if last_index is not None:
        last.index = last_index
    interceptor = AppendIndexMetadataInterceptor()
    interceptor.recover(properties, last)
    assert intercept_all([interceptor], counts(1), now_ms=7).index.tolist() == [expected]
    assert interceptor.properties() == {"index": str(expected)}


@pytest.mark.parametrize("value", ["many", "1_0", " 7 ", "\u0663", ""])
def test_an_index_that_is_no_number_is_an_error(value):
    """A property that is not a number is an error, because counting from nothing would give numbers twice."""
    with pytest.raises(MetadataInvalid, match=f"property index of the managed ledger is '{value}'"):
        AppendIndexMetadataInterceptor().recover({"index": value}, None)


class Shifting(BrokerEntryMetadataInterceptor):
    """Interceptor that changes the values set by those before it."""

    def __init__(self, rows: int = 0) -> None:
        self.rows = rows

    def intercept(self, metadata, num_messages, *, now_ms):
        return replace(metadata, index=metadata.index[self.rows :] + 100)


class Failing(BrokerEntryMetadataInterceptor):
    def intercept(self, metadata, num_messages, *, now_ms):
        raise RuntimeError("no")


def test_interceptors_build_on_each_other():
    """Interceptors are called in order, and need no method but intercept()."""
    metadata = intercept_all([AppendIndexMetadataInterceptor(), Shifting()], counts(1, 1), now_ms=7)
    assert metadata.index.tolist() == [100, 101]


@pytest.mark.parametrize(("broken", "error"), [(Failing(), RuntimeError), (Shifting(rows=1), InvalidInput)])
def test_an_error_makes_the_others_forget_the_entries(broken, error):
    """An interceptor that raises, or returns too few rows, leaves no gap in the numbers of the others."""
    index = AppendIndexMetadataInterceptor()
    with pytest.raises(error):
        intercept_all([index, broken], counts(2, 2), now_ms=7)
    assert index.index == -1


def test_metadata_is_read_without_what_follows():
    """Broker metadata is read from the frame alone, and a damaged frame has none."""
    read = broker_metadata_of(EXAMPLE_B)
    assert (read.broker_timestamp, read.index) == (1_700_000_000_123, 41)
    assert broker_metadata_of(EXAMPLE_B[:15]) == read
    for entry in (
        b"",
        EXAMPLE_B[:5],
        EXAMPLE_B[:14],
        EXAMPLE_B[15:],
        EXAMPLE_B[:6] + b"\xff" * 9,
        b"\x0e\x02" + b"\xff" * 9,
    ):
        assert broker_metadata_of(entry) is None


def test_columns_begin_empty():
    """Without interceptors, no field is set."""
    assert intercept_all([], counts(1), now_ms=7) == BrokerMetadataColumns()
