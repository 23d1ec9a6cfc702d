"""Paths that begin with ``~``: only a shell replaces it by a home directory, and only at the start of a word."""

from delayed_tracker.core.values.errors import InvalidInput


def refuse_home_path(field: str, value: str, path: str) -> None:
    """Refuse a path that would name a file or a directory called ``~``, which is never intended.

    Args:
        field: name of the setting or option.
        value: its full value, for the message.
        path: the part of it that names a file.
    Raises:
        InvalidInput: it begins with ``~``.
    """
    if path.startswith("~"):
        raise InvalidInput(
            field, value, f"~ is not replaced by a home directory here: write the path out, or ./{path} for that name"
        )
