"""Loads settings from their sources: the default, a broker.conf, the file, the environment, the command line.

A later source overrides an earlier one.

The broker.conf is Pulsar's own file. Keys of this service are validated, all others are ignored and listed. Two kinds
of other keys are errors, since ignoring them would change when messages are delivered: a key that looks like a misspelt
key of this service, and a key of delayed delivery that this service does not have.

The environment variable of a key is ``TRACKER_`` and the key, compared without regard to case and underscores: both
``TRACKER_delayedDeliveryTickTimeMillis`` and ``TRACKER_DELAYED_DELIVERY_TICK_TIME_MILLIS`` are this key. A variable
that starts with ``TRACKER_`` and is no key is an error, except those that Kubernetes sets for a service named
``tracker``.
"""

import dataclasses
import difflib
import errno
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.files.whole_file import read_whole
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.settings.file import Assignment, MalformedLine, parse_properties
from delayed_tracker.service.settings.keys import Group, SettingKey, SettingValue
from delayed_tracker.service.settings.server import GRPC_KEEPALIVE_MS
from delayed_tracker.service.settings.settings import LOAD_INDEXES_MIN, SETTING_KEYS, Settings

REMOVED_KEYS: Final[Mapping[str, int]] = {
    "grpcKeepaliveMillis": GRPC_KEEPALIVE_MS,
    "retryAfterMillis": ServiceLimits().retry_after_ms,
    "segmentLoadIndexesMax": TrackerLimits().load_indexes_max,
    "segmentLoadIndexesMin": LOAD_INDEXES_MIN,
}
"""Keys that were settings once, with the values that are fixed now."""

ENVIRONMENT_PREFIX = "TRACKER_"
DEFAULT_ORIGIN = "default"
CONFIG_BYTES_MAX = 2**20
"""A larger file is refused. Pulsar's broker.conf has some 80 kB, most of it comments."""
_SLIP_SIMILARITY = 0.9
"""A key of a broker.conf that is at least this similar to a key of the service is a misspelling."""
_DELAYED_DELIVERY = "delayeddelivery"
_KUBERNETES_VARIABLE = re.compile(r"TRACKER_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\w+)?)")


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """One problem of the configuration: its place, the key and value, and the remedy."""

    origin: str
    key: str
    value: str | None
    """The value as written; None if the line is no ``key=value`` and ``key`` holds all of it."""
    remedy: str
    line: int | None = None
    """Line of the file, from 1; None if the value comes from another source. ``origin`` contains the line, too."""

    def __str__(self) -> str:
        written = self.key if self.value is None else f"{self.key}={self.value}"
        return f"{self.origin}: {written}: {self.remedy}"


class InvalidSettings(DelayedTrackerError):
    """The configuration is invalid; the message has one line for each problem."""

    reason = "INVALID_SETTINGS"

    def __init__(self, problems: Iterable[SettingProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One key with its value as text and the origin of the value (``default``, ``FILE:LINE``, ...)."""

    key: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Valid settings, and the origin of each value."""

    settings: Settings
    origins: Mapping[str, str]
    ignored: tuple[str, ...] = ()
    """Keys of the broker.conf that are not of this service, in the order of the file."""

    def rows(self) -> list[SettingRow]:
        """Return a row for every key, in the order of ``conf/tracker.conf``."""
        return [
            SettingRow(key, SETTING_KEYS[key].shown(SettingKey.render(value)), self.origins[key])
            for key, value in self.settings.by_key().items()
        ]


@dataclass(frozen=True, slots=True)
class _Given:
    """A value as a source gives it."""

    origin: str
    name: str
    """The key as written."""
    value: str
    line: int | None = None
    bare: str | None = None
    """The whole line of the file if it has no assignment sign; else None."""
    is_variable: bool = False
    """True if it is of the environment, which other programs share."""

    @classmethod
    def of(cls, path: Path, row: Assignment) -> "_Given":
        return cls(f"{path}:{row.line}", row.key, row.value, row.line, row.bare)


def load_settings(
    path: Path | None = None,
    *,
    broker_conf: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
    groups: Collection[Group] = tuple(Group),
) -> LoadedSettings:
    """Read the settings from their sources; each overrides the one before.

    Args:
        path: a file of this service's keys in ``broker.conf`` syntax, if any.
        broker_conf: a ``broker.conf`` of Pulsar, if any.
        environ: environment variables; None stands for an empty environment.
        overrides: values of the command line, by exact key.
        groups: all groups, or those that the caller needs: values of the others are not looked at, since a secured
            broker's may be of no use here, and the keys of tokens may be out of reach.

    Raises:
        InvalidSettings: with every unknown key and bad value, its origin, and the nearest known key.
    """
    given: dict[str, _Given] = {}
    problems: list[SettingProblem] = []
    ignored: list[str] = []
    if broker_conf is not None:
        for row in _assignments(broker_conf, "--broker-conf", problems):
            if _is_of_others(row.key):
                ignored.append(row.key)
            else:
                _take(_Given.of(broker_conf, row), row.key, given, problems)
    if path is not None:
        for row in _assignments(path, "--config", problems):
            _take(_Given.of(path, row), row.key, given, problems)
    _read_environment(environ or {}, given, problems)
    for key, value in (overrides or {}).items():
        _take(_Given("command line", key, value), key, given, problems)
    given = {key: source for key, source in given.items() if SETTING_KEYS[key].group in groups}
    return dataclasses.replace(_build(given, problems), ignored=tuple(dict.fromkeys(ignored)))


def _assignments(path: Path, option: str, problems: list[SettingProblem]) -> list[Assignment]:
    try:
        return parse_properties(read_whole(path, CONFIG_BYTES_MAX))
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = "shorten it" if error.errno == errno.EFBIG else "name a readable file"
        problems.append(SettingProblem("command line", option, str(path), f"{reason}: {remedy}"))
    except MalformedLine as error:
        problems.append(SettingProblem(f"{path}:{error.line}", error.text, None, error.remedy, error.line))
    return []


def _is_of_others(key: str) -> bool:
    """Return True if a key of a broker.conf is not of this service."""
    if key in SETTING_KEYS:
        return False
    folded = _folded(key)
    ours = [_folded(known) for known in SETTING_KEYS]
    return _DELAYED_DELIVERY not in folded and not difflib.get_close_matches(folded, ours, 1, _SLIP_SIMILARITY)


def _read_environment(environ: Mapping[str, str], given: dict[str, _Given], problems: list[SettingProblem]) -> None:
    keys = {_folded(key): key for key in SETTING_KEYS}
    names: dict[str, str] = {}
    for name in sorted(environ):
        if not name.startswith(ENVIRONMENT_PREFIX) or _KUBERNETES_VARIABLE.fullmatch(name):
            continue
        written = name.removeprefix(ENVIRONMENT_PREFIX)
        key = keys.get(_folded(written), written)
        origin = f"environment {name}"
        if key in names:
            remedy = f"{names[key]} is set too: unset one of the two"
            shown = SETTING_KEYS[key].shown(environ[name]) if key in SETTING_KEYS else environ[name]
            problems.append(SettingProblem(origin, key, shown, remedy))
            continue
        names[key] = name
        _take(_Given(origin, name, environ[name].strip(), is_variable=True), key, given, problems)


def _take(source: _Given, key: str, given: dict[str, _Given], problems: list[SettingProblem]) -> None:
    if key in SETTING_KEYS:
        given[key] = source
        return
    if key in REMOVED_KEYS:
        remedy = f"this key was removed, its value is now fixed at {REMOVED_KEYS[key]}: remove it"
        problems.append(SettingProblem(source.origin, key, source.value, remedy, source.line))
        return
    nearest = _nearest(key)
    is_secret = nearest is not None and SETTING_KEYS[nearest].secret
    hint = f"; did you mean {nearest}?" if nearest else "; `delayed-tracker config` lists all there are"
    remedy = f"there is no such key{hint}"
    if source.bare is None:
        shown: str | None = SETTING_KEYS[nearest].shown(source.value) if nearest else source.value
        if nearest is None and source.is_variable:
            shown = None  # another program's variable, maybe its password
        problems.append(SettingProblem(source.origin, key, shown, remedy, source.line))
        return
    remedy = f"the line has no `=`, and {remedy}" if nearest else "the line has no `=`: write KEY=VALUE"
    problems.append(SettingProblem(source.origin, key if is_secret else source.bare, None, remedy, source.line))


def _build(given: Mapping[str, _Given], problems: list[SettingProblem]) -> LoadedSettings:
    values: dict[str, SettingValue] = {}
    for key, declared in SETTING_KEYS.items():
        if key not in given:
            continue
        try:
            values[key] = declared.parse(given[key].value)
        except InvalidInput as error:
            row = given[key]
            shown = declared.shown(row.value)
            problems.append(SettingProblem(row.origin, key, shown, error.remedy, row.line))
    if problems:
        raise InvalidSettings(problems)
    origins = {key: given[key].origin if key in given else DEFAULT_ORIGIN for key in SETTING_KEYS}
    try:
        settings = Settings().with_values(values)
    except InvalidInput as error:
        line = given[error.field].line if error.field in given else None
        raise InvalidSettings(
            [SettingProblem(origins[error.field], error.field, str(error.value), error.remedy, line)]
        ) from error
    return LoadedSettings(settings, origins)


def _nearest(key: str) -> str | None:
    """Return the known key that is most similar to ``key``, without case and underscores; None if none is similar.

    The common prefix of the keys of delayed delivery is ignored: it would make all of them similar.
    """
    folded = {_folded(known).replace(_DELAYED_DELIVERY, ""): known for known in SETTING_KEYS}
    matches = difflib.get_close_matches(_folded(key).replace(_DELAYED_DELIVERY, ""), folded, n=1)
    return folded[matches[0]] if matches else None


def _folded(key: str) -> str:
    return key.replace("_", "").lower()
