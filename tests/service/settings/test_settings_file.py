"""The syntax of broker.conf: the parser reads it as Java's Properties do."""

import pytest

from delayed_tracker.service.settings.file import Assignment, MalformedLine, parse_properties


def pairs(text: str) -> list[tuple[str, str]]:
    return [(row.key, row.value) for row in parse_properties(text.encode())]


@pytest.mark.parametrize(
    ("line", "pair"),
    [
        ("key=value", ("key", "value")),
        ("key = value ", ("key", "value")),
        ("  key\t=\tvalue", ("key", "value")),
        ("key:value", ("key", "value")),
        ("key value", ("key", "value")),
        ("key  =  a = b", ("key", "a = b")),
        ("key=a:b=c", ("key", "a:b=c")),
        ("key=", ("key", "")),
        ("key", ("key", "")),
        ("=value", ("", "value")),
        ("key=value # no comment", ("key", "value # no comment")),
        (r"key=C\:\\data\=1", ("key", r"C:\data=1")),
        (r"k\=e\:y\ s=v", ("k=e:y s", "v")),
        (r"key=\u00e9\t\n\r\f.", ("key", "é\t\n\r\f.")),
        (r"key=\ud83d\ude00", ("key", "😀")),
        (r"key=\z\"", ("key", 'z"')),
        ("key=é", ("key", "é")),
    ],
)
def test_one_line_reads_as_java_reads_it(line: str, pair: tuple[str, str]):
    """Separators, blanks and escapes have the meaning of a properties file."""
    assert pairs(line) == [pair]


def test_comments_and_blank_lines_hold_nothing():
    """Lines whose first character is # or ! are comments, and a comment is never continued."""
    assert pairs("# a=1\n  ! b=2\n\n \t\nc=3\n# ends in a backslash \\\nd=4") == [("c", "3"), ("d", "4")]


def test_continued_lines_join_and_keep_the_first_line_number():
    """A backslash at the end joins the next line without its leading blanks; two of them are one backslash."""
    rows = parse_properties(b"first=a, \\\n   b, \\\r\n\tc\nsecond=x\\\\\nthird=y\\")
    assert rows == [
        Assignment(1, "first", "a, b, c"),
        Assignment(4, "second", "x\\"),
        Assignment(5, "third", "y"),
    ]


def test_line_numbers_count_every_kind_of_line_end():
    """Unix, Windows and old Macintosh line ends each end one line."""
    assert [row.line for row in parse_properties(b"a=1\nb=2\r\nc=3\rd=4")] == [1, 2, 3, 4]


def test_byte_order_mark_is_no_part_of_the_first_key():
    """A file with a byte order mark reads like one without."""
    assert parse_properties("a=1".encode("utf-8-sig")) == [Assignment(1, "a", "1")]


@pytest.mark.parametrize(
    ("content", "line", "remedy"),
    [
        (b"a=1\nb=\xff\xfe\n", 2, "UTF-8"),
        (b"a=1\n\nb=\\u12g4\n", 3, "four hexadecimal digits"),
        (b"b=\\u12", 1, "four hexadecimal digits"),
        (b"b=\\ud83d.", 1, "both halves"),
    ],
)
def test_malformed_lines_are_named(content: bytes, line: int, remedy: str):
    """An unreadable line is an error with its number and a remedy."""
    with pytest.raises(MalformedLine, match=remedy) as caught:
        parse_properties(content)
    assert caught.value.line == line


def test_repeated_keys_are_all_given():
    """The parser keeps repeated keys in order; the loader uses the last one."""
    assert pairs("a=1\na=2") == [("a", "1"), ("a", "2")]


def test_a_file_that_is_no_text_is_refused_as_a_whole():
    """The error states that the file is not text, instead of listing its bytes as keys."""
    with pytest.raises(MalformedLine, match="line 2: this is no text file"):
        parse_properties(b"SQLite format 3\n\0\x10\0")
