"""All metric families: name, type, labels and meaning. The exporter writes exactly these."""

from typing import Final

from delayed_tracker.service.instruments import (
    security_families,
    server_families,
    service_families,
    tracker_families,
)
from delayed_tracker.service.instruments.family import Family

FAMILIES: Final = (
    *(family for family in vars(tracker_families).values() if isinstance(family, Family)),
    *(family for family in vars(service_families).values() if isinstance(family, Family)),
    *service_families.SHELL_COUNTERS.values(),
    *(family for family in vars(security_families).values() if isinstance(family, Family)),
    *(family for family in vars(server_families).values() if isinstance(family, Family)),
)
"""All families, in the order of their files."""

FROM_THE_LIBRARY: Final = ("process_", "python_")
"""Prefixes of the metrics of Prometheus' client library: memory, processor time, open files, garbage collection."""
