"""Metric families. Each is declared once, for the exposition, the documentation's table and the tests of both."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache


class Kind(enum.Enum):
    """Prometheus' types, as the text format names them."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Format(enum.Enum):
    """Formats of an exposition."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    @classmethod
    def accepted(cls, accept: str) -> "Format":
        """Return OpenMetrics if a request's Accept header names it, whatever its parameters are, else the text format."""
        types = {each.partition(";")[0].strip().lower() for each in accept.split(",")}
        return cls.OPENMETRICS if "application/openmetrics-text" in types else cls.TEXT


class Origin(enum.Enum):
    """Origins of names. A setting drops the names of one origin."""

    PULSAR = "PIP-195's"
    TWIN = "the same by Prometheus' conventions"
    OURS = "ours"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family.

    ``labels`` has the possible values of each label, or none if they are not known in advance.
    """

    name: str
    """Name in the text format. The name of a counter ends in ``_total``, unless it is Pulsar's name."""
    kind: Kind
    meaning: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    origin: Origin = Origin.OURS

    def header(self, form: Format) -> bytes:
        """Return the lines before the samples.

        OpenMetrics has neither counters without ``_total`` nor histograms of separate ranges. There, Pulsar's families
        are of unknown type.
        """
        return _header(self, form)


@cache
def _header(family: Family, form: Format) -> bytes:
    name, kind = family.name, family.kind.value
    if form is Format.OPENMETRICS:
        if family.origin is Origin.PULSAR:
            kind = "unknown"
        elif family.kind is Kind.COUNTER:
            name = name.removesuffix("_total")
    return f"# HELP {name} {family.meaning}\n# TYPE {name} {kind}\n".encode()


def label(name: str, value: str) -> str:
    """Return one label in the text format, with quotes, backslashes and line ends escaped."""
    escaped = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return f'{name}="{escaped}"'


def number(value: float) -> str:
    """Return a sample's value in the text format."""
    if isinstance(value, int):
        return str(value)
    return "+Inf" if value == float("inf") else repr(float(value))
