"""Rules of authorization: which role may take which actions on which topics and subscriptions.

    {"rules": [
        {"role": "shop", "topicPrefix": "persistent://shop/", "actions": ["dispatch"]},
        {"role": "audit", "topic": "persistent://shop/orders/paid", "subscription": "billing", "actions": ["read"]},
        {"role": "prometheus", "actions": ["metrics"]}
    ]}

A rule has a ``role`` and ``actions``, at most one of ``topic`` and ``topicPrefix``, and at most one of ``subscription``
and ``subscriptionPrefix``. Without a topic it holds for all topics, and for what concerns none. With a subscription it
does not hold for calls that concern the topic as a whole. Names are compared verbatim. Nothing is denied by a rule:
what no rule grants is denied. Any other key is an error, so that a misspelt restriction does not widen a rule.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Self

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.limits import NAME_BYTES_MAX
from delayed_tracker.service.security.actions import CONTAINED, Action
from delayed_tracker.service.security.json_document import is_name, parse_object

RULES_BYTES_MAX: Final = 8 * 2**20
RULES_MAX: Final = 50_000
_KEYS: Final = frozenset({"role", "topic", "topicPrefix", "subscription", "subscriptionPrefix", "actions"})
_NAMES: Final = ("role", "topic", "topicPrefix", "subscription", "subscriptionPrefix")


@dataclass(frozen=True, slots=True)
class Names:
    """Names that one side of a rule holds for."""

    text: str = ""
    is_prefix: bool = True

    def hold_for(self, name: str) -> bool:
        """Return True if the rule holds for the name."""
        return name.startswith(self.text) if self.is_prefix else name == self.text


@dataclass(frozen=True, slots=True)
class Rule:
    """One grant."""

    role: str
    topics: Names
    subscriptions: Names
    actions: frozenset[Action]
    """All that it grants, with what the named actions contain."""

    @classmethod
    def of(cls, given: object, place: str) -> Self:
        """Check one rule of a file.

        Raises:
            InvalidInput: with its place, such as ``rules[3]``.
        """
        if not isinstance(given, dict):
            raise InvalidInput(place, given, 'give an object with "role" and "actions"')
        for key in given:
            if key not in _KEYS:
                raise InvalidInput(
                    f"{place}.{key}", given[key], f"there is no such key: give {', '.join(sorted(_KEYS))}"
                )
        for key in _NAMES:
            if key in given and not is_name(given[key]):
                raise InvalidInput(f"{place}.{key}", given[key], f"give text of 1 to {NAME_BYTES_MAX} bytes")
        if "role" not in given:
            raise InvalidInput(f"{place}.role", None, "name the role that the rule is for")
        return cls(
            given["role"],
            _names(given, "topic", place),
            _names(given, "subscription", place),
            _actions(given.get("actions"), f"{place}.actions"),
        )


class Rules:
    """All rules of a file, arranged by role, so that a decision looks at the rules of one role.

    Cost of a decision: O(1) for rules with whole topics, and O(prefixes of different lengths) for those with prefixes.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._exact: dict[tuple[str, str], list[Rule]] = defaultdict(list)
        self._prefixed: dict[str, dict[int, dict[str, list[Rule]]]] = defaultdict(lambda: defaultdict(dict))
        self.count = 0
        for rule in rules:
            self.count += 1
            if rule.topics.is_prefix:
                prefix = rule.topics.text
                self._prefixed[rule.role][len(prefix)].setdefault(prefix, []).append(rule)
            else:
                self._exact[rule.role, rule.topics.text].append(rule)

    @classmethod
    def parse(cls, content: bytes) -> "Rules":
        """Parse a file of rules.

        Args:
            content: UTF-8, of at most ``RULES_BYTES_MAX`` bytes, which the caller has checked.
        Raises:
            InvalidInput: it is no JSON, has a key twice or an unknown one, or more than ``RULES_MAX`` rules.
        """
        document = parse_object(content, "rules", 'give JSON in UTF-8: {"rules": [...]}')
        if list(document) != ["rules"] or not isinstance(document["rules"], list):
            raise InvalidInput("rules", None, 'give JSON with one key: {"rules": [...]}')
        given = document["rules"]
        if len(given) > RULES_MAX:
            raise InvalidInput("rules", f"{len(given)} rules", f"give at most {RULES_MAX}; prefixes need fewer")
        return cls(Rule.of(each, f"rules[{number}]") for number, each in enumerate(given))

    def allow(self, role: str, action: Action, topic: str, subscription: str) -> bool:
        """Return True if a rule grants the action; see ``AuthorizationProvider.allows``."""
        for rule in self._exact.get((role, topic), ()):
            if action in rule.actions and rule.subscriptions.hold_for(subscription):
                return True
        for length, by_prefix in self._prefixed.get(role, {}).items():
            for rule in by_prefix.get(topic[:length], ()):
                if action in rule.actions and rule.subscriptions.hold_for(subscription):
                    return True
        return False


def _names(given: dict[str, Any], kind: str, place: str) -> Names:
    whole, prefix = given.get(kind), given.get(f"{kind}Prefix")
    if whole is not None and prefix is not None:
        raise InvalidInput(f"{place}.{kind}", whole, f"give {kind} or {kind}Prefix, not both")
    return Names(prefix or "", is_prefix=True) if whole is None else Names(whole, is_prefix=False)


def _actions(given: object, place: str) -> frozenset[Action]:
    known = {action.value: action for action in Action}
    if not isinstance(given, list) or not given:
        raise InvalidInput(place, given, f"give a list of {', '.join(known)}")
    for name in given:
        if not isinstance(name, str) or name not in known:
            raise InvalidInput(place, name, f"give actions out of {', '.join(known)}")
    return frozenset().union(*(CONTAINED[known[name]] for name in given))
