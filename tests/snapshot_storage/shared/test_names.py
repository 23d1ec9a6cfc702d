"""Names of trackers for stores: safe, short, and apart."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.shared.names import NAME_CHARACTERS_MAX, tracker_of, tracker_path
from delayed_tracker.storage.testing.contract_catalogue import ODD_NAMES

texts = st.text(max_size=30) | st.sampled_from(ODD_NAMES) | st.text("=h,./%a0", max_size=8)


@given(texts, texts)
def test_a_name_is_safe_and_leads_back(topic, cursor):
    """A name has safe characters and a bounded length, and tells its tracker unless it ends in a hash."""
    path = tracker_path(topic, cursor)
    assert re.fullmatch(r"[0-9a-f]{2}/[A-Za-z0-9_.,=-]+", path)
    assert len(path) <= NAME_CHARACTERS_MAX + 3
    assert tracker_of(path) == (None if "=h" in path else (topic, cursor))


@given(texts, texts, texts, texts)
def test_two_trackers_have_two_names(topic, cursor, other_topic, other_cursor):
    """Names differ when trackers do, wherever the text is cut into topic and cursor."""
    same = (topic, cursor) == (other_topic, other_cursor)
    assert (tracker_path(topic, cursor) == tracker_path(other_topic, other_cursor)) == same


def test_a_usual_name_can_be_read():
    """An operator recognises topic and subscription."""
    path = tracker_path("persistent://lab/main/orders", "billing")
    assert path.partition("/")[2] == "persistent=3A=2F=2Flab=2Fmain=2Forders,billing"


def test_long_names_differ_in_their_hash():
    """Long names with the same beginning are apart."""
    first, second = tracker_path("x" * 250, "a"), tracker_path("x" * 250, "b")
    assert first[3:83] == second[3:83] == "x" * 80
    assert first != second


@pytest.mark.parametrize("path", ["", "ab/", "ab/name", "00/a,b", "ab/=FF,b", "ab/a=2,b", "ab/a,b,c"])
def test_other_names_are_no_trackers(path):
    """A file that somebody put there is no tracker."""
    assert tracker_of(path) is None


def test_what_is_no_text_is_refused():
    """Half of a surrogate pair has no bytes."""
    with pytest.raises(InvalidInput, match="cursor"):
        tracker_path("topic", "\ud800")
