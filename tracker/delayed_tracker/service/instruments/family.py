"""What a metric family is: declared once, for the exposition, for README's table and for the tests of both."""

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
    """How an exposition is written."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Origin(enum.Enum):
    """Whose names these are, and so which setting drops them."""

    PULSAR = "PIP-195's"
    TWIN = "the same by Prometheus' conventions"
    OURS = "ours"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family.

    ``labels`` gives for each label all of its values, or nothing where they are not known beforehand.
    """

    name: str
    """As in the text format: that of a counter ends in ``_total``, unless the name is Pulsar's."""
    kind: Kind
    meaning: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    origin: Origin = Origin.OURS

    def header(self, form: Format) -> bytes:
        """The lines before the samples.

        OpenMetrics knows no counter without ``_total`` and no histogram of separate ranges: Pulsar's are of unknown type
        there.
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
    """One label as it is written: quotes, backslashes and line ends escaped."""
    escaped = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return f'{name}="{escaped}"'


def number(value: float) -> str:
    """A sample's value as it is written."""
    if isinstance(value, int):
        return str(value)
    return "+Inf" if value == float("inf") else repr(float(value))
