"""Metric families of authentication, authorization, quotas and certificates."""

from typing import Final

from delayed_tracker.service.instruments.family import Family, Kind
from delayed_tracker.service.instruments.security_counts import QUOTA_LIMITS, REFUSALS, RELOADED

REFUSED: Final = Family(
    "delayed_tracker_refused_calls_total",
    Kind.COUNTER,
    "Calls and HTTP requests refused for their credential, or since no rule grants the action; the audit log has them.",
    {"reason": REFUSALS},
)
OVER_QUOTA: Final = Family(
    "delayed_tracker_quota_refused_calls_total",
    Kind.COUNTER,
    "Calls and HTTP requests refused for a quota of their principal (quotasFilePath), by the limit that was reached.",
    {"limit": QUOTA_LIMITS},
)
RELOADS: Final = Family(
    "delayed_tracker_security_reloads_total",
    Kind.COUNTER,
    "Changed certificates, token keys, rules and quotas that were read again.",
    {"kind": RELOADED, "outcome": ("ok", "failed")},
)
STALE: Final = Family(
    "delayed_tracker_security_stale",
    Kind.GAUGE,
    "Whether a changed file cannot be used, so that its old content is in force: 1 until it can, else 0.",
    {"kind": RELOADED},
)
CERTIFICATE_ENDS: Final = Family(
    "delayed_tracker_certificate_not_after_timestamp_seconds",
    Kind.GAUGE,
    "End of the TLS certificate in force, seconds since 1970, UTC; no sample without TLS.",
)
