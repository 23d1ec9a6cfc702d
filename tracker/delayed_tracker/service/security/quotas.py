"""Quotas of principals, and the file that sets them.

    {
      "default": {"callsPerSecond": 500, "callsInFlightMax": 300, "openTrackersMax": 100},
      "roles": {
        "shop": {"callsPerSecond": 5000, "indexesPerSecond": 200000, "bytesPerSecond": 20000000},
        "batch": {"pendingIndexesMax": 50000000}
      }
    }

A role that ``roles`` names has that quota alone: what it leaves out is unlimited. ``default`` is the quota of every other
role but those of ``superUserRoles``. Any other key is an error, so that a misspelt limit does not let everything pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.security.json_document import is_name, parse_object

QUOTAS_BYTES_MAX: Final = 8 * 2**20
QUOTA_ROLES_MAX: Final = 50_000
VALUE_MAX: Final = 2**53
"""Largest number that every reader of JSON keeps exactly."""
_FORM: Final = 'give JSON in UTF-8: {"default": {...}, "roles": {"ROLE": {...}}}'


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of one principal; None is unlimited.

    A limit is checked before a call has an effect. The call that reaches it is still done whole; those after it wait.
    """

    calls_per_second: int | None = None
    """Calls begun, and requests of streams."""
    indexes_per_second: int | None = None
    """Positions in requests, and positions handed out."""
    bytes_per_second: int | None = None
    """Bytes of requests and answers."""
    calls_in_flight_max: int | None = None
    """Calls that are being answered, idle streams and waiting polls among them, and HTTP requests."""
    open_trackers_max: int | None = None
    """Trackers that the principal was the last to open."""
    pending_indexes_max: int | None = None
    """Indexes that these trackers have, leased ones included."""

    @classmethod
    def of(cls, given: object, place: str) -> Self:
        """Check one quota of a file.

        Raises:
            InvalidInput: with its place, such as ``roles.shop``.
        """
        if not isinstance(given, dict):
            raise InvalidInput(place, given, f"give an object with {', '.join(QUOTA_KEYS)}")
        for key, value in given.items():
            if key not in QUOTA_KEYS:
                raise InvalidInput(f"{place}.{key}", value, f"there is no such key: give {', '.join(QUOTA_KEYS)}")
            minimum = 0 if key.endswith("Max") else 1
            if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= VALUE_MAX:
                raise InvalidInput(f"{place}.{key}", value, f"give a whole number of {minimum} to {VALUE_MAX}")
        return cls(**{QUOTA_KEYS[key]: value for key, value in given.items()})


def _key_of(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


QUOTA_KEYS: Final[Mapping[str, str]] = {_key_of(field.name): field.name for field in fields(Quota)}
"""Keys of a quota in the file, each with its field."""
UNLIMITED: Final = Quota()


class Quotas:
    """All quotas of a file.

    Args:
        by_role: quotas of named roles.
        default: quota of all others.
    """

    def __init__(self, by_role: Mapping[str, Quota], default: Quota = UNLIMITED) -> None:
        self._by_role = by_role
        self._default = default

    @classmethod
    def parse(cls, content: bytes) -> "Quotas":
        """Parse a file of quotas.

        Args:
            content: UTF-8, of at most ``QUOTAS_BYTES_MAX`` bytes, which the caller has checked.
        Raises:
            InvalidInput: it is no JSON, has a key twice or an unknown one, or more than ``QUOTA_ROLES_MAX`` roles.
        """
        document = parse_object(content, "quotas", _FORM)
        if unknown := document.keys() - {"default", "roles"}:
            raise InvalidInput("quotas", min(unknown), f"there is no such key: {_FORM}")
        roles: Any = document.get("roles", {})
        if not isinstance(roles, dict):
            raise InvalidInput("roles", roles, _FORM)
        if len(roles) > QUOTA_ROLES_MAX:
            raise InvalidInput("roles", f"{len(roles)} roles", f"give at most {QUOTA_ROLES_MAX}")
        for role in roles:
            if not is_name(role):
                raise InvalidInput("roles", role, "name a role")
        by_role = {role: Quota.of(given, f"roles.{role}") for role, given in roles.items()}
        return cls(by_role, Quota.of(document.get("default", {}), "default"))

    def of(self, role: str, *, is_super_user: bool = False) -> Quota:
        """Return the quota of a role."""
        return self._by_role.get(role, UNLIMITED if is_super_user else self._default)
