"""Counts of refused callers, and the state of what security depends on: keys, rules, quotas and certificates."""

from typing import Final

REFUSALS: Final = ("UNAUTHENTICATED", "PERMISSION_DENIED")
QUOTA_LIMITS: Final = (
    "callsPerSecond",
    "indexesPerSecond",
    "bytesPerSecond",
    "callsInFlightMax",
    "openTrackersMax",
    "pendingIndexesMax",
)
RELOADED: Final = ("certificate", "quotas", "rules", "token_keys")


class SecurityCounts:
    """Counts of one service."""

    def __init__(self) -> None:
        self.refused = dict.fromkeys(REFUSALS, 0)
        """Refused calls and requests of HTTP by reason."""
        self.over_quota = dict.fromkeys(QUOTA_LIMITS, 0)
        """Calls refused for a quota, by the limit of the quota."""
        self.reloads = {(kind, outcome): 0 for kind in RELOADED for outcome in ("ok", "failed")}
        """Changed files that were read, by kind and outcome."""
        self.is_stale = dict.fromkeys(RELOADED, False)
        """True while a changed file cannot be used, so that the old content is in force."""
        self.certificate_ends_s: float | None = None
        """End of the TLS certificate in force, seconds since 1970, UTC; None without TLS."""

    def reloaded(self, kind: str) -> None:
        """Note that a changed file is in force."""
        self.reloads[kind, "ok"] += 1
        self.is_stale[kind] = False

    def not_reloaded(self, kind: str) -> None:
        """Note that a changed file cannot be used."""
        self.reloads[kind, "failed"] += 1
        self.is_stale[kind] = True
