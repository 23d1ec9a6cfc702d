"""Interceptors of broker metadata: what they set, and what they take back."""

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
    """The first single message has 0, a first batch of three has 2."""
    interceptor = AppendIndexMetadataInterceptor()
    assert intercept_all([interceptor], counts(1, 3, 1), now_ms=7).index.tolist() == [0, 3, 4]
    assert intercept_all([interceptor], counts(2), now_ms=7).index.tolist() == [6]
    assert intercept_all([AppendIndexMetadataInterceptor()], counts(3), now_ms=7).index.tolist() == [2]


def test_failed_adds_are_counted_back():
    """The next entries get the numbers that the failed ones had."""
    interceptor = AppendIndexMetadataInterceptor()
    intercept_all([interceptor], counts(1, 2), now_ms=7)
    intercept_all([interceptor], counts(5), now_ms=7)
    interceptor.add_failed(counts(5))
    assert intercept_all([interceptor], counts(1), now_ms=7).index.tolist() == [3]


def test_the_timestamp_is_the_time_of_the_add():
    """All entries of a batch have the same, and no index."""
    metadata = intercept_all([AppendBrokerTimestampMetadataInterceptor()], counts(1, 9), now_ms=1_700_000_000_123)
    assert metadata.broker_timestamp_ms.tolist() == [1_700_000_000_123] * 2
    assert metadata.index is None


@pytest.mark.parametrize(
    ("properties", "last_index", "expected"),
    [({}, None, 0), ({"index": "41"}, None, 42), ({"index": "41"}, 50, 51), ({"index": "41"}, 7, 42), ({}, 7, 8)],
)
def test_the_index_goes_on_from_property_or_last_entry(properties, last_index, expected):
    """Whichever is larger; -1 when there is neither."""
    last = BrokerEntryMetadata(broker_timestamp=5)
    if last_index is not None:
        last.index = last_index
    interceptor = AppendIndexMetadataInterceptor()
    interceptor.recover(properties, last)
    assert intercept_all([interceptor], counts(1), now_ms=7).index.tolist() == [expected]
    assert interceptor.properties() == {"index": str(expected)}


def test_an_index_that_is_no_number_is_an_error():
    """Counting on from nothing would give numbers twice."""
    with pytest.raises(MetadataInvalid, match="property index of the managed ledger is 'many'"):
        AppendIndexMetadataInterceptor().recover({"index": "many"}, None)


class Shifting(BrokerEntryMetadataInterceptor):
    """Sees what those before it have set."""

    def __init__(self, rows: int = 0) -> None:
        self.rows = rows

    def intercept(self, metadata, num_messages, *, now_ms):
        return replace(metadata, index=metadata.index[self.rows :] + 100)


class Failing(BrokerEntryMetadataInterceptor):
    def intercept(self, metadata, num_messages, *, now_ms):
        raise RuntimeError("no")


def test_interceptors_build_on_each_other():
    """They are called in order; an interceptor need not have more than intercept()."""
    metadata = intercept_all([AppendIndexMetadataInterceptor(), Shifting()], counts(1, 1), now_ms=7)
    assert metadata.index.tolist() == [100, 101]


@pytest.mark.parametrize(("broken", "error"), [(Failing(), RuntimeError), (Shifting(rows=1), InvalidInput)])
def test_an_error_makes_the_others_forget_the_entries(broken, error):
    """One that raises, or gives too few rows, does not leave a hole in the numbers."""
    index = AppendIndexMetadataInterceptor()
    with pytest.raises(error):
        intercept_all([index, broken], counts(2, 2), now_ms=7)
    assert index.index == -1


def test_metadata_is_read_without_what_follows():
    """The frame alone counts, and damage is no metadata."""
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
    """No interceptor, no field."""
    assert intercept_all([], counts(1), now_ms=7) == BrokerMetadataColumns()
