"""Paths that begin with ``~``: only shells know whose home that is, and only where a word begins with it."""

from delayed_tracker.core.values.errors import InvalidInput


def refuse_home_path(field: str, value: str, path: str) -> None:
    """Refuse a path that would name a file or a directory called ``~``, which nobody means.

    Args:
        field: which setting or option it is.
        value: all of it, for the message.
        path: the part of it that names a file.
    Raises:
        InvalidInput: it begins with ``~``.
    """
    if path.startswith("~"):
        raise InvalidInput(
            field, value, f"~ is not replaced by a home directory here: write the path out, or ./{path} for that name"
        )
