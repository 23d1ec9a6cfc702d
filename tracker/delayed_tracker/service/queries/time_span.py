"""Time spans as text, for the sentence and the table of `explain`."""

_UNITS_MS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))


def in_two_units(duration_ms: int) -> str:
    """Return the duration in its two largest units, rounded down: "3 d 4 h"."""
    parts: list[str] = []
    for unit_ms, name in _UNITS_MS:
        count, duration_ms = divmod(duration_ms, unit_ms)
        if count or parts:
            parts.append(f"{count} {name}")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if not part.startswith("0 ")) or "0 ms"
