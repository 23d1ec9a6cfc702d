"""Settings of metrics, logs and traces."""

import re
from dataclasses import dataclass

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.settings.address import Address
from delayed_tracker.service.settings.keys import Group, Section, setting

_DAY_MS = 86_400_000


@dataclass(frozen=True, kw_only=True)
class TelemetrySettings(Section):
    """Settings of metrics, logs and traces."""

    metrics_trackers_max: int = setting(
        1_000,
        "metricsTrackersMax",
        Group.SERVER,
        "Trackers whose metrics have series of their own, with the labels namespace, topic and subscription. Of trackers "
        "opened beyond that, and of those whose names have more than 1024 bytes together, there is the sum.",
        unit="trackers",
        maximum=10_000_000,
    )
    metrics_names: str = setting(
        "both",
        "metricsNames",
        Group.SERVER,
        "Names that /metrics shows for values that have both a PIP-195 name and a name by Prometheus' conventions.",
        choices={name: name for name in ("both", "pulsar", "prometheus")},
    )
    cluster_name: str = setting(
        "",
        "clusterName",
        Group.SERVER,
        "The label cluster of metrics of trackers, as Pulsar's brokers have it; empty leaves it out.",
    )
    log_format: str = setting(
        "console",
        "logFormat",
        Group.SERVER,
        "How log lines on stderr read: console for people, json for machines.",
        choices={"console": "console", "json": "json"},
    )
    log_level: str = setting(
        "info",
        "logLevel",
        Group.SERVER,
        "The least important lines that are logged.",
        choices={level: level for level in ("debug", "info", "warning", "error")},
        reloadable=True,
    )
    slow_storage_ms: int = setting(
        1_000,
        "slowStorageMillis",
        Group.SERVER,
        "A call to the storage that takes longer is logged, up to ten a minute of each operation; 0 logs none.",
        unit="ms",
        maximum=_DAY_MS,
    )
    tracing_endpoint: str = setting(
        "",
        "tracingEndpoint",
        Group.SERVER,
        "OpenTelemetry collector (OTLP over gRPC) that spans of calls and storage operations are sent to: "
        "http://HOST:PORT, or https: for TLS. Needs the extra tracing; OTEL_* variables say the rest. Empty: no tracing.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tracing_endpoint and not _is_endpoint(self.tracing_endpoint):
            remedy = "give http://HOST:PORT, such as http://127.0.0.1:4317, or https: for TLS"
            raise InvalidInput("tracingEndpoint", self.tracing_endpoint, remedy)


def _is_endpoint(url: str) -> bool:
    scheme, _, address = url.partition("://")
    if scheme not in ("http", "https") or re.search(r"[/@?#]", address):
        return False
    try:
        return Address.parse(address).port > 0
    except ValueError:
        return False
