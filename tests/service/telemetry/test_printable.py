"""Text for people: characters that are not printable are escapes, and all others are unchanged."""

import json

import pytest

from delayed_tracker.service.telemetry.printable import printable, printable_json, printable_lines


@pytest.mark.parametrize("text", ["persistent://lab/main/orders", "Grüße, 漢字 und 🙂", "", "back\\slash", "100 %"])
def test_letters_of_any_script_stay(text):
    """Names in any script are not changed."""
    assert printable(text) == printable_lines(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b2J", "\\x9b2J"),
        ("\x7f", "\\x7f"),
        ("a\tb\rc\nd", "a\\tb\\rc\\nd"),
        ("\u202eevil", "\\u202eevil"),
        ("\u2066\u2069\u200e\u061c", "\\u2066\\u2069\\u200e\\u061c"),
        ("\u2028\u2029\x85", "\\u2028\\u2029\\x85"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_control_and_formatting_characters_are_escapes(text, shown):
    """No control character reaches a terminal, and each has an escape of its own."""
    assert printable(text) == shown


def test_lines_stay_lines_only_where_they_are_meant():
    """A message of several lines keeps its line ends; a name has none."""
    assert printable_lines("one\ntwo\x1b") == "one\ntwo\\x1b"
    assert printable("one\ntwo") == "one\\ntwo"


@pytest.mark.parametrize("text", ["\x9b\x7f\u202e\u2028\x00\n\\", "\U000e0041", "plain"])
def test_json_keeps_its_value(text):
    """The JSON value is unchanged, and terminals get no raw control character."""
    document = printable_json(json.dumps({text: [text]}, ensure_ascii=False, indent=2))
    assert json.loads(document) == {text: [text]}
    assert all(line.isprintable() for line in document.splitlines())
