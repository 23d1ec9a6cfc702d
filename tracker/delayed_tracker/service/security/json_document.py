"""Parses JSON files of operators: one object, in which no key is there twice."""

import json
from typing import Any

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.limits import NAME_BYTES_MAX


def parse_object(content: bytes, field: str, remedy: str) -> dict[str, Any]:
    """Return the object that a file consists of.

    Args:
        content: UTF-8, of a size that the caller has checked.
        field: named in errors.
        remedy: the form that the file should have.

    Raises:
        InvalidInput: it is no JSON, is nested too deeply, is no object, or has a key twice.
    """
    try:
        document = json.loads(content, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        shown = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidInput(field, shown, remedy) from None
    if not isinstance(document, dict):
        raise InvalidInput(field, None, remedy)
    return document


def is_name(given: object) -> bool:
    """Return True for text that can be a role, a topic or a subscription."""
    return isinstance(given, str) and 1 <= len(given.encode("utf-8", "surrogatepass")) <= NAME_BYTES_MAX


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Of a repeated key, json would take the last value without a word."""
    collected = dict(pairs)
    if len(collected) != len(pairs):
        raise ValueError("a key is there twice")
    return collected
