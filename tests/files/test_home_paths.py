"""Paths that only a shell can resolve."""

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.home_paths import refuse_home_path


@pytest.mark.parametrize("path", ["~", "~/tracker.db", "~broker/tracker.db"])
def test_a_path_below_a_home_is_refused_with_the_way_out(path):
    """The path would name a directory called ~ in the working directory."""
    with pytest.raises(InvalidInput, match="write the path out") as refused:
        refuse_home_path("--into", f"sqlite:{path}", path)
    assert f"'sqlite:{path}'" in refused.value.message
    assert f"./{path} " in refused.value.message


@pytest.mark.parametrize("path", ["", "tracker.db", "/var/~/tracker.db", "./~/tracker.db", "a~"])
def test_other_paths_are_none_of_its_business(path):
    """A ~ inside a path is an ordinary letter."""
    refuse_home_path("--into", path, path)
