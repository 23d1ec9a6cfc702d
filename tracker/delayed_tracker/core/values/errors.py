"""Base classes of all errors of this project.

Errors are sorted by the action that they require of the caller. ``reason`` is a stable upper-case word that travels
over gRPC as ``google.rpc.ErrorInfo.reason``; it is never renamed. The message is one sentence that names the field, the
value and the remedy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

OFFSETS_REPORTED_MAX = 1_000
"""At most this many bad offsets are listed in one error; the total is always given."""
VALUE_BYTES_MAX: Final = 400
"""A longer value is shown without its middle: errors travel in gRPC trailers of 8 KiB, and are logged on one line."""


def shown_value(value: object) -> str:
    """Return the form of a value in errors: its representation, without the middle if it is long."""
    return without_middle(repr(value), VALUE_BYTES_MAX)


def without_middle(text: str, bytes_max: int) -> str:
    """Return a text of at most about ``bytes_max`` bytes of UTF-8: of a longer text the beginning and the end."""
    encoded = text.encode("utf-8", "backslashreplace")
    if len(encoded) <= bytes_max:
        return text
    half = bytes_max // 2
    return f"{encoded[:half].decode('utf-8', 'ignore')}...{encoded[-half:].decode('utf-8', 'ignore')}"


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One fault of one field of a request, a file or a setting."""

    field: str
    description: str


class DelayedTrackerError(Exception):
    """Base of every error this project raises on purpose; a call that raises one has changed nothing."""

    reason: str = "INTERNAL"

    def __init__(self, message: str, *, metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.metadata: dict[str, str] = dict(metadata or {})


class InvalidInput(DelayedTrackerError):
    """A value from outside is malformed; the caller must change it before trying again."""

    reason = "INVALID_INPUT"

    def __init__(
        self,
        field: str,
        value: object,
        remedy: str,
        *,
        offsets: Sequence[int] = (),
        offset_count: int | None = None,
    ) -> None:
        count = len(offsets) if offset_count is None else offset_count
        where = ""
        if count:
            shown = ", ".join(str(offset) for offset in offsets[:5])
            where = f" at offset{'s' if count > 1 else ''} {shown}{', ...' if count > 5 else ''}"
            where += f" ({count} in all)" if count > 1 else ""
        super().__init__(f"{field}: {shown_value(value)}{where} is not valid; {remedy}", metadata={"field": field})
        self.field = field
        self.value = value
        self.remedy = remedy
        self.offsets = tuple(offsets[:OFFSETS_REPORTED_MAX])
        self.offset_count = count

    @property
    def violations(self) -> tuple[FieldViolation, ...]:
        """Violations: one for each bad offset, or a single one for the field itself."""
        if not self.offsets:
            return (FieldViolation(self.field, f"{shown_value(self.value)}: {self.remedy}"),)
        return tuple(FieldViolation(f"{self.field}[{offset}]", self.remedy) for offset in self.offsets)


class InvariantViolation(DelayedTrackerError):
    """The core's own state contradicts itself: a bug of the core, never of the caller."""

    reason = "INVARIANT_VIOLATION"


class TrackerClosed(DelayedTrackerError):
    """The tracker was closed or deleted; open it again."""

    reason = "TRACKER_CLOSED"
