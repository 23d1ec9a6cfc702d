"""Declarations of configuration keys: name, type, unit, range and meaning, and the parsing of their text.

A key is declared once, as the default of a field of a :class:`Section`. Parsing, validation, ``conf/tracker.conf`` and
the documentation's table all read that declaration.
"""

import dataclasses
import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.settings.address import parse_addresses

SettingValue = bool | int | str
_Value = TypeVar("_Value", bool, int, str)

INT64_MAX = 2**63 - 1
HIDDEN = "(not shown)"
_METADATA_KEY = "setting"
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_BOOLEANS = {"true": True, "false": False}


class Group(enum.Enum):
    """The sections of ``conf/tracker.conf``, in order; the value is the section's title."""

    PULSAR = "Delayed delivery: keys as in Pulsar's broker.conf"
    STORAGE = "Snapshots and memory"
    LEDGER = "Ledgers to read"
    DISPATCHER = "What dispatchers may ask for"
    SECURITY = "Authentication and authorization: keys as in Pulsar's broker.conf"
    SERVER = "Addresses, limits and logs of the service"


class Form(enum.Enum):
    """The forms that the text of a value can have."""

    SWITCH = "true or false"
    NUMBER = "a whole number"
    TEXT = "text"
    ADDRESSES = "addresses, divided by commas: host:port, tls://host:port or mtls://host:port"
    PLAIN_ADDRESS = "one address: host:port"


@dataclass(frozen=True, slots=True)
class SettingKey:
    """One configuration key."""

    key: str
    default: SettingValue
    group: Group
    meaning: str
    form: Form
    unit: str = ""
    minimum: int = 0
    maximum: int = INT64_MAX
    special_value: tuple[int, str] | None = None
    """A number outside the range that is also legal, and its meaning."""
    choices: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Accepted texts, each with the value that it stands for; empty if any text is accepted."""
    unsupported_reason: str = ""
    """Reason why only the default is accepted; empty if every value in range is accepted."""
    reloadable: bool = False
    """True if SIGHUP applies a changed value; False if it needs a restart."""
    secret: bool = False
    """True if the value must not be shown, unless it only names files."""

    @property
    def allowed(self) -> str:
        """The range in words, for documentation and errors."""
        if self.unsupported_reason:
            shown = self.render(self.default)
            return f"only {shown or 'empty'}"
        if self.choices:
            return ", ".join(filter(None, self.choices))
        if self.form is Form.NUMBER:
            also = f", or {self.special_value[0]} ({self.special_value[1]})" if self.special_value else ""
            return f"{self.minimum} to {self.maximum}{also}"
        return str(self.form.value)

    def parse(self, text: str) -> SettingValue:
        """Parse the text of a file or of the environment into a valid value.

        Raises:
            InvalidInput: the text does not have this key's form, or the value is not allowed.
        """
        value: SettingValue
        if self.form is Form.SWITCH:
            if text.lower() not in _BOOLEANS:
                raise InvalidInput(self.key, text, "give true or false")
            value = _BOOLEANS[text.lower()]
        elif self.form is Form.NUMBER:
            if not _WHOLE_NUMBER.fullmatch(text):
                raise InvalidInput(self.key, text, f"give a whole number, {self.allowed}")
            value = int(text)
        else:
            value = self.choices.get(text, text)
        self.check(value)
        return value

    def check(self, value: SettingValue) -> None:
        """Refuse a value that this key cannot have.

        Raises:
            InvalidInput: with the key, the value and the allowed values.
        """
        if self.unsupported_reason and value != self.default:
            shown = self.render(self.default)
            remedy = f"leave it {shown}" if shown else "leave it empty"
            raise InvalidInput(self.key, value, f"{self.unsupported_reason}; {remedy}")
        if self.form is Form.SWITCH and not isinstance(value, bool):
            raise InvalidInput(self.key, value, "give true or false")
        if self.form is Form.NUMBER:
            if not isinstance(value, int) or isinstance(value, bool):
                raise InvalidInput(self.key, value, f"give a whole number, {self.allowed}")
            if not self.minimum <= value <= self.maximum and not (
                self.special_value and value == self.special_value[0]
            ):
                raise InvalidInput(self.key, value, f"give {self.allowed}")
        if self.choices and value not in self.choices.values():
            raise InvalidInput(self.key, value, f"give one of {self.allowed}")
        if self.form in {Form.ADDRESSES, Form.PLAIN_ADDRESS}:
            try:
                is_missing = not parse_addresses(str(value)) and bool(self.default)
            except ValueError:
                is_missing = True
            if is_missing:
                remedy = (
                    "give host:port such as 127.0.0.1:7650 or [::1]:7650, port 0 to 65535 (0: any free one), "
                    "tls:// or mtls:// before it for TLS, several divided by commas, each once"
                )
                raise InvalidInput(self.key, value, remedy)

    def shown(self, text: str) -> str:
        """Return the text of a value for people: of a secret only the names of files."""
        if not self.secret or all(part.startswith("file:") for part in text.split()):
            return text
        return HIDDEN

    @staticmethod
    def render(value: SettingValue) -> str:
        """Return the text that ``parse`` turns into ``value``."""
        return str(value).lower() if isinstance(value, bool) else str(value)


def setting(
    default: _Value,
    key: str,
    group: Group,
    meaning: str,
    *,
    unit: str = "",
    minimum: int = 0,
    maximum: int = INT64_MAX,
    special_value: tuple[int, str] | None = None,
    choices: Mapping[str, str] | None = None,
    form: Form = Form.TEXT,
    unsupported_reason: str = "",
    reloadable: bool = False,
    secret: bool = False,
) -> _Value:
    """Declare a dataclass field that is a configuration key. ``form`` is of texts; others follow from the type of ``default``."""
    if isinstance(default, bool):
        form = Form.SWITCH
    elif isinstance(default, int):
        form = Form.NUMBER
    declared = SettingKey(
        key=key,
        default=default,
        group=group,
        meaning=meaning,
        form=form,
        unit=unit,
        minimum=minimum,
        maximum=maximum,
        special_value=special_value,
        choices=choices or {},
        unsupported_reason=unsupported_reason,
        reloadable=reloadable,
        secret=secret,
    )
    field: _Value = dataclasses.field(default=default, metadata={_METADATA_KEY: declared})
    return field


@dataclass(frozen=True, kw_only=True)
class Section:
    """Base of the values of one section of the settings. The constructor validates each value.

    Raises:
        InvalidInput: with the configuration key, the value and the allowed values.
    """

    def __post_init__(self) -> None:
        for field, declared in _fields(type(self)).values():
            declared.check(getattr(self, field))

    @classmethod
    def keys(cls) -> dict[str, SettingKey]:
        """Return the declarations by key, in order."""
        return {key: declared for key, (_, declared) in _fields(cls).items()}

    def by_key(self) -> dict[str, SettingValue]:
        """Return every value by its key, in order."""
        return {key: getattr(self, field) for key, (field, _) in _fields(type(self)).items()}

    def with_values(self, values: Mapping[str, SettingValue]) -> Self:
        """Return the section with the values of its own keys replaced; other keys are ignored."""
        ours = _fields(type(self))
        changes: dict[str, Any] = {ours[key][0]: value for key, value in values.items() if key in ours}
        return dataclasses.replace(self, **changes)


def _fields(section: type[Section]) -> dict[str, tuple[str, SettingKey]]:
    declared = ((field.name, field.metadata[_METADATA_KEY]) for field in dataclasses.fields(section))
    return {key.key: (name, key) for name, key in declared}


def check_order(lower: tuple[str, int], upper: tuple[str, int]) -> None:
    """Refuse the first of two (key, value) pairs if its value is above the second's.

    Raises:
        InvalidInput: with both keys and values.
    """
    if lower[1] > upper[1]:
        raise InvalidInput(lower[0], lower[1], f"it must not be above {upper[0]}={upper[1]}: lower this or raise that")
