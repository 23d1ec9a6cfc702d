"""Tests of sources of ledgers by URL."""

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.source_url import open_source, parse_source_url, split_sources
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers
from tests.ledger.harness.disks import DiskFiles
from tests.ledger.harness.log_files import TOPIC


@pytest.fixture
def bookie(tmp_path):
    disk = DiskFiles(tmp_path / "a bookie")
    disk.directory.mkdir()
    disk.add_ledger(3, [b"a", b"bb"])
    disk.open().close()
    return f"bookkeeper+file:{disk.directory}/ledgers".replace(" ", "%20"), disk.directory / "dump.jsonl.gz"


def test_spaces_divide_sources():
    """Spaces separate sources, and the error for a text without a scheme shows how to write a space within a path."""
    assert split_sources(" ledger:a\t offload+mapfile:b?metadata=c ") == ["ledger:a", "offload+mapfile:b?metadata=c"]
    assert split_sources("ledger:a nosuch:b") == ["ledger:a", "nosuch:b"]
    assert split_sources("") == []
    with pytest.raises(InvalidInput, match="sources are separated by spaces, and 'b/c' is not a source: write %20"):
        split_sources("ledger:a b/c")


def test_the_disks_of_bookies(bookie):
    """Paths for the disks of bookies may be percent-encoded and may have the scheme file."""
    url, dump = bookie
    for place in (url, url.replace("file:/", "file:file:///")):
        with open_source(f"{place}?metadata={dump}") as source:
            assert source.topics() == [TOPIC]
            assert source.topic_log(TOPIC).entry_count == 2


def test_how_open_ledgers_are_read_is_an_option(bookie):
    """The option for open ledgers reaches the source."""
    url, dump = bookie
    with open_source(f"{url}?metadata={dump}&openLedgers=live") as source:
        assert source.open_ledgers is OpenLedgers.LIVE


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        (lambda url: url.replace("bookkeeper+file", "bookeeper"), "known schemes are bookkeeper"),
        (lambda url: url.partition(":")[2], "give scheme:place"),
        (lambda url: url.replace("metadata=", "metdata="), "did you mean 'metadata'"),
        (lambda url: url.partition("?")[0], "add metadata="),
        (lambda url: url + "&openLedgers=sometimes", "openLedgers is live or recovered"),
        (lambda url: url + "&openLedgers=", "give each option once"),
    ],
)
def test_a_wrong_url_says_what_to_write(bookie, change, remedy):
    """The error for a wrong URL names the URL and the remedy."""
    url, dump = bookie
    wrong = change(f"{url}?metadata={dump}")
    with pytest.raises(InvalidInput) as error:
        open_source(wrong)

    assert remedy in error.value.message
    assert wrong in error.value.message


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("bookkeeper+file:/nowhere?metadata={dump}", "/nowhere: give a directory that exists"),
        ("bookkeeper+file:{empty}?metadata={dump}", "{empty}: give a directory with entry logs: "),
        ("bookkeeper+file:{empty}?metadata=/nowhere", "metadata=/nowhere: No such file or directory; "),
        ("bookkeeper+file:{empty}?metadata={empty}", "metadata={empty}: Is a directory; "),
        ("bookkeeper+file:{empty}?metadata=zk:", "metadata=zk:: give zk:HOST:PORT, "),
        ("ledger:/nowhere", "/nowhere: give a directory of local ledgers; "),
        ("offload+mapfile:/nowhere", "/nowhere: give a directory that exists"),
        ("offload+mapfile:{empty}", "{empty}: give the directory in which <tenant>/"),
        ("offload+mapfile:{empty}?metadata=/nowhere", "metadata=/nowhere: No such file or directory; "),
        ("offload+blob:/nowhere", "/nowhere: give a directory that exists, or a URL: "),
        ("offload+blob:{empty}", "{empty}: give the bucket or directory in which "),
        ("offload+blob:ftp://x", "ftp://x: give s3://, gs://, az:// or file:// and what it needs: "),
    ],
)
def test_what_a_url_names_is_found_wrong_by_its_part(bookie, tmp_path, source, said):
    """The error for an unusable part of a URL names the URL, the part and the remedy."""
    empty = tmp_path / "empty"
    empty.mkdir()
    url = source.format(dump=bookie[1], empty=empty)
    with pytest.raises(InvalidInput) as error:
        open_source(url)

    assert error.value.message.startswith(f"source: {url!r} is not valid; {said.format(empty=empty)}")


def test_several_places_and_options_come_apart():
    """Commas separate places, and options are decoded."""
    url = parse_source_url("bookkeeper+file:/a,/b%2Cc?metadata=/d%20e+f")
    assert (url.paths, url.options["metadata"]) == (["/a", "/b,c"], "/d e+f")
