r"""The syntax of ``broker.conf``: ``key=value`` lines with the comments and escapes of Java properties.

Comments start with ``#`` or ``!``. The key ends at the first ``=``, ``:`` or blank that is not escaped. A backslash at
the end of a line continues it; ``\t \n \r \f \uXXXX`` mean what they do in Java, and before any other character the
backslash is dropped. Values lose surrounding blanks. The file is UTF-8. If a key is repeated, the last value counts.

Source: ``java.util.Properties.load``, and Pulsar's configuration loader, which trims values.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

from delayed_tracker.core.values.errors import DelayedTrackerError

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"(?P<key>(?:\\.|[^\\=:\s])*)[ \t\f]*(?P<sign>[=:]?)[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.)|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Assignment:
    """One ``key=value`` of a file."""

    line: int
    """Number of its first line, from 1."""
    key: str
    value: str
    bare: str | None = None
    """The whole line as written, if neither ``=`` nor ``:`` ends the key; else None."""


class MalformedLine(DelayedTrackerError):
    """A line is not a Java property."""

    reason = "MALFORMED_LINE"

    def __init__(self, line: int, text: str, remedy: str) -> None:
        super().__init__(f"line {line}: {remedy}")
        self.line = line
        self.text = text
        self.remedy = remedy


def parse_properties(content: bytes) -> list[Assignment]:
    """Parse every assignment, in order, including repeated keys.

    Raises:
        MalformedLine: bytes that are not UTF-8, a zero byte, or a broken Unicode escape.
    """
    # Without it the place of an error would count from behind the mark.
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = len(_LINE_END.split(content[: error.start].decode("utf-8")))
        raise MalformedLine(line, repr(error.object[error.start : error.end]), "save the file as UTF-8") from error
    if "\0" in text:
        line = len(_LINE_END.split(text[: text.index("\0")]))
        raise MalformedLine(line, "a zero byte", "this is no text file: name a file of key=value lines")
    rows = []
    for line, logical in _logical_lines(text):
        match = _KEY.fullmatch(logical)
        assert match is not None
        try:
            key, value = _unescape(match["key"]), _unescape(match["value"]).strip()
            rows.append(Assignment(line, key, value, bare=None if match["sign"] else logical.rstrip()))
        except ValueError as error:
            raise MalformedLine(line, logical, str(error)) from error
    return rows


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each assignment with the number of its first line. Continuation lines are joined."""
    started = 0
    joined = ""
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        line = natural.lstrip(_BLANKS)
        if not started:
            if not line or line[0] in "#!":
                continue
            started = number
        joined += line
        backslashes = len(joined) - len(joined.rstrip("\\"))
        if backslashes % 2:
            joined = joined[:-1]
            continue
        yield started, joined
        started, joined = 0, ""
    if started:
        yield started, joined


def _unescape(text: str) -> str:
    """Return the text with its escapes replaced. The ValueError for a broken escape gives the correct form."""
    unescaped = _ESCAPE.sub(_unescaped_character, text)
    # Java writes a character beyond the first 65,536 as two escapes. Encoding to UTF-16 joins them.
    try:
        return unescaped.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as error:
        raise ValueError("write both halves of the surrogate pair") from error


def _unescaped_character(match: re.Match[str]) -> str:
    code, character = match.groups(default="")
    if code:
        return chr(int(code, 16))
    if character == "u":
        raise ValueError("write \\u with four hexadecimal digits, or double the backslash")
    return _ESCAPES.get(character, character)
