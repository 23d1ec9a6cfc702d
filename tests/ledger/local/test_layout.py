"""Tests of topic names as directory names, and of the small files beside the ledgers."""

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import MetadataInvalid, TopicNotFound
from delayed_tracker.ledger.local.files import checked_file
from delayed_tracker.ledger.local.files.layout import LedgerDirectory, directory_name, topic_of_directory
from delayed_tracker.ledger.local.metadata import Confirmed, TopicMetadata, read_confirmed, read_metadata
from delayed_tracker.ledger.local.opening import open_writer
from delayed_tracker.ledger.local.source import open_local_ledgers
from delayed_tracker.ledger.source_url import open_source
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers
from delayed_tracker.ledger.topic_name import TopicName
from tests.ledger.harness.log_files import flipped
from tests.ledger.local.disks import TOPIC, QuickDisk, stored

LONG = "persistent://lab/main/" + "ä long name/" * 60
NAMES = [
    TOPIC,
    "persistent://../../..",
    "persistent://lab/main/..",
    "persistent://lab/main/a~b",
    "persistent://lab/main/%2F",
    "persistent://lab/main/Größe 1/2",
    "persistent://lab/cluster/main/x",
    "persistent://lab/main/\0\n",
    LONG + "1",
    LONG + "2",
]


def append(directory, topic, *payloads: bytes) -> None:
    with open_writer(directory, topic, now_ms=1, disk=QuickDisk()) as writer:
        writer.append_many(payloads, now_ms=1)


def test_any_topic_name_will_do(tmp_path):
    """Topic names with a meaning to the file system, or too long for it, stay in their directory and round-trip."""
    inside = tmp_path / "ledgers"
    for number, name in enumerate(NAMES):
        append(inside, name, b"%d" % number)
    assert [path.name for path in tmp_path.iterdir()] == ["ledgers"]
    with open_local_ledgers(inside) as source:
        assert source.topics() == sorted(str(TopicName.parse(name)) for name in NAMES)
    for number, name in enumerate(NAMES):
        assert stored(inside, name) == [(Position(number, 0), b"%d" % number)]


def test_directory_names_are_reversible_unless_too_long():
    """A directory name is reversible, except for a long one, which ends in a hash."""
    for name in map(TopicName.parse, NAMES):
        directory = directory_name(name)
        assert len(directory) <= 255
        assert not {"/", "\0", "\n"} & set(directory)
        assert topic_of_directory(directory) == (None if "~" in directory else name)
    assert len({directory_name(TopicName.parse(name)) for name in NAMES}) == len(NAMES)


def test_every_flipped_byte_of_the_metadata_is_noticed(tmp_path):
    """Every flipped byte of the metadata makes reading and writing fail with the file's name, and changes no file."""
    append(tmp_path, TOPIC, b"a")
    file = LedgerDirectory(tmp_path).topic(TopicName.parse(TOPIC)).metadata
    right = file.read_bytes()
    wrong = [flipped(right, offset, mask) for offset in range(len(right)) for mask in (1, 0x80)]
    for content in [*wrong, b"", right[:-1], right + b"\0"]:
        file.write_bytes(content)
        with open_local_ledgers(tmp_path) as source, pytest.raises(MetadataInvalid, match="metadata is"):
            source.topic_log(TOPIC)
        with pytest.raises(MetadataInvalid, match="metadata is"):
            open_writer(tmp_path, TOPIC, now_ms=1)
    file.write_bytes(right)
    assert stored(tmp_path) == [(Position(0, 0), b"a")]


def test_metadata_of_a_newer_version_says_so(tmp_path):
    """Metadata of a newer version is reported as such and not as damage."""
    content = bytearray(checked_file.encode(b"DTLM", b""))
    content[7] = 2
    header = bytes(content[:12])
    file = tmp_path / "metadata"
    import google_crc32c  # noqa: PLC0415

    file.write_bytes(header + google_crc32c.value(header).to_bytes(4, "big"))
    with pytest.raises(MetadataInvalid, match="is of version 2; this program reads version 1"):
        read_metadata(file)


def test_metadata_comes_back(tmp_path):
    """Metadata round-trips with ledgers, properties and termination, without ledgers that have no entries."""
    metadata = TopicMetadata(TopicName.parse(LONG)).with_properties({"a": "b", "index": "7"}).with_open(3)
    metadata = metadata.with_closed(3, entry_count=0, payload_bytes=0, now_ms=5).with_open(9)
    metadata = metadata.with_closed(9, entry_count=2, payload_bytes=30, now_ms=0).with_open(11)
    metadata = metadata.with_termination(Position(9, 1))
    file = tmp_path / "metadata"
    file.write_bytes(metadata.encode())
    read = read_metadata(file)
    assert read == metadata
    assert [(ledger.ledger_id, ledger.entry_count) for ledger in read.ledgers] == [(9, 2), (11, None)]
    assert read.open_ledger == metadata.ledgers[-1]
    assert read_metadata(tmp_path / "none") is None


def test_a_damaged_confirmation_is_no_confirmation(tmp_path):
    """A confirmation with any flipped byte is ignored."""
    file = tmp_path / "confirmed"
    confirmed = Confirmed(5, 7, 2_000, 99)
    file.write_bytes(confirmed.encode())
    assert read_confirmed(file) == confirmed
    for offset in range(len(confirmed.encode())):
        file.write_bytes(flipped(confirmed.encode(), offset))
        assert read_confirmed(file) is None
    assert read_confirmed(tmp_path / "none") is None


def test_metadata_that_is_gone_is_not_taken_for_a_new_topic(tmp_path):
    """Missing metadata of existing ledgers is an error, because a new topic would remove them."""
    append(tmp_path, TOPIC, b"a")
    files = LedgerDirectory(tmp_path).topic(TopicName.parse(TOPIC))
    files.metadata.unlink()
    with pytest.raises(MetadataInvalid, match="metadata is missing, though there are ledgers"):
        open_writer(tmp_path, TOPIC, now_ms=1)
    append(tmp_path, "other", b"b")
    files.metadata.write_bytes(LedgerDirectory(tmp_path).topic(TopicName.parse("other")).metadata.read_bytes())
    with pytest.raises(MetadataInvalid, match=r"is that of persistent://public/default/other, not of"):
        open_writer(tmp_path, TOPIC, now_ms=1)
    assert files.log(0).exists()


def test_what_a_crash_left_is_swept_away_and_indexes_are_made_again(tmp_path):
    """Opening removes ledger files that no metadata names, and rewrites an index that is missing or too short."""
    append(tmp_path, TOPIC, b"a", b"b")
    files = LedgerDirectory(tmp_path).topic(TopicName.parse(TOPIC))
    right = files.index(0).read_bytes()
    for lost in (lambda: files.index(0).unlink(), lambda: files.index(0).write_bytes(right[:8])):
        lost()
        files.log(7).write_bytes(b"half a ledger")
        files.index(7).write_bytes(b"")
        open_writer(tmp_path, TOPIC, now_ms=1, disk=QuickDisk()).close()
        assert files.index(0).read_bytes() == right
        assert files.ledger_ids() == [0]
        assert not files.index(7).exists()


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda path: path / "missing" / "ledgers", "create the directory"),
        (lambda path: path / "file", "it is a file"),
    ],
)
def test_a_directory_that_cannot_be_is_refused(tmp_path, make, remedy):
    """An invalid directory is refused before anything is created."""
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match=remedy):
        open_writer(make(tmp_path), TOPIC, now_ms=1)
    with pytest.raises(InvalidInput, match="give a directory of local ledgers"):
        open_local_ledgers(make(tmp_path))


def test_a_topic_that_is_not_there_is_an_error(tmp_path):
    """A missing topic is an error that lists similar names, also for its compacted ledger."""
    append(tmp_path, TOPIC, b"a")
    with open_local_ledgers(tmp_path) as source:
        for call in (source.topic_log, source.compacted_log):
            with pytest.raises(TopicNotFound, match=r"has no topic .*/order; similar names: .*/orders"):
                call("persistent://lab/main/order")
        assert source.compacted_log(TOPIC) is None


def test_a_url_names_the_directory(tmp_path):
    """A URL names the directory, and its option selects how open ledgers are read."""
    append(tmp_path / "some ledgers", TOPIC, b"a")
    url = f"ledger:{tmp_path}/some%20ledgers"
    with open_source(url) as source:
        assert source.topics() == [TOPIC]
        assert source.open_ledgers is OpenLedgers.LIVE
    with open_source(f"{url}?openLedgers=recovered") as source:
        assert source.open_ledgers is OpenLedgers.RECOVERED
    for wrong, remedy in [
        (f"{url},{url}", "give one place"),
        (f"{url}?metadata=x", "options of ledger are openLedgers"),
    ]:
        with pytest.raises(InvalidInput, match=remedy):
            open_source(wrong)
