"""The sorted map that takes no memory while it is empty."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.ordered_map import OrderedMap


@given(st.lists(st.tuples(st.sampled_from(["set", "delete", "pop_first", "clear"]), st.integers(0, 9))))
def test_it_equals_a_sorted_dict_of_builtins(steps) -> None:
    """Entries, ends and order equal those of a sorted dict after any operations."""
    ordered, model = OrderedMap(), {}
    for verb, key in steps:
        match verb:
            case "set":
                ordered[key] = model[key] = -key
            case "delete":
                assert ordered.pop(key, None) == model.pop(key, None)
            case "pop_first" if model:
                assert ordered.pop_first() == (min(model), model.pop(min(model)))
            case "clear":
                ordered.clear()
                model.clear()
        assert list(ordered.items()) == sorted(model.items())
        assert len(ordered) == len(model)
        if model:
            assert (ordered.first()[0], ordered.last()[0]) == (min(model), max(model))


def test_what_is_not_there_is_a_key_error() -> None:
    """A missing key raises KeyError, in an empty map and in others."""
    ordered: OrderedMap[int, int] = OrderedMap()
    for _ in range(2):
        with pytest.raises(KeyError):
            ordered[1]
        with pytest.raises(KeyError):
            del ordered[1]
        ordered[2] = 2
