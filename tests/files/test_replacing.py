"""A new file takes the place of the old one at once, or not at all."""

import pytest

from delayed_tracker.files.replacing import replacing


def test_the_new_file_takes_the_place_of_the_old_one(tmp_path):
    """Until the block has ended, the old content is there."""
    path = tmp_path / "file"
    path.write_text("old")
    with replacing(path) as written:
        written.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_after_an_error_the_old_file_is_as_it_was(tmp_path):
    """The part of the new file that was written is removed."""
    path = tmp_path / "file"
    path.write_text("old")

    def fail() -> None:
        with replacing(path) as written:
            written.write_text("ne")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
