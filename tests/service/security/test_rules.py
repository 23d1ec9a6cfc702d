"""Rules: what each grants and does not, and files that are refused whole."""

import json
import re

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.security.actions import Action
from delayed_tracker.service.security.rules import RULES_MAX, Rules
from tests.repository.project_tree import ROOT

TOPIC = "persistent://shop/orders/paid"


def rules(*given: dict[str, object]) -> Rules:
    return Rules.parse(json.dumps({"rules": given}).encode())


def test_what_no_rule_grants_is_denied():
    """Without rules nobody may do anything."""
    assert not rules().allow("shop", Action.READ, TOPIC, "s")


def test_a_whole_topic_and_a_prefix():
    """Names are compared verbatim, and a prefix ends wherever it ends."""
    one = rules({"role": "a", "topic": TOPIC, "actions": ["read"]})
    assert one.allow("a", Action.READ, TOPIC, "s")
    assert not one.allow("a", Action.READ, f"{TOPIC}-partition-0", "s")
    assert not one.allow("b", Action.READ, TOPIC, "s")
    assert not one.allow("a", Action.DISPATCH, TOPIC, "s")
    many = rules({"role": "a", "topicPrefix": "persistent://shop/", "actions": ["read"]})
    assert many.allow("a", Action.READ, TOPIC, "s")
    assert not many.allow("a", Action.READ, "persistent://shopping/orders/paid", "s")
    assert not many.allow("a", Action.READ, "", "")


def test_subscriptions():
    """A rule with a subscription does not hold for the topic as a whole."""
    one = rules({"role": "a", "topic": TOPIC, "subscription": "s", "actions": ["dispatch"]})
    assert one.allow("a", Action.DISPATCH, TOPIC, "s")
    for other in ("", "s2", "S"):
        assert not one.allow("a", Action.DISPATCH, TOPIC, other)
    many = rules({"role": "a", "topicPrefix": "p", "subscriptionPrefix": "s", "actions": ["dispatch"]})
    assert many.allow("a", Action.DISPATCH, TOPIC, "s2")
    assert not many.allow("a", Action.DISPATCH, TOPIC, "")


def test_actions_that_contain_read():
    """A dispatcher sees its trackers, and a reader of contents the positions; nothing else contains anything."""
    for action, reads in (("dispatch", True), ("payload", True), ("metrics", False), ("admin", False)):
        assert rules({"role": "a", "actions": [action]}).allow("a", Action.READ, TOPIC, "s") is reads
    assert not rules({"role": "a", "actions": ["admin"]}).allow("a", Action.DISPATCH, TOPIC, "s")


def test_several_rules_of_a_role_add_up():
    """Two rules for one topic grant what either grants."""
    both = rules(
        {"role": "a", "topic": TOPIC, "subscription": "s", "actions": ["dispatch"]},
        {"role": "a", "topic": TOPIC, "subscription": "t", "actions": ["read"]},
    )
    assert both.allow("a", Action.DISPATCH, TOPIC, "s")
    assert both.allow("a", Action.READ, TOPIC, "t")
    assert not both.allow("a", Action.DISPATCH, TOPIC, "t")


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"", "JSON"),
        (b"\xff", "JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "give JSON"),
        (b'{"rules": {}}', "one key"),
        (b'{"rules": [], "role": []}', "one key"),
        (b'{"rules": [], "rules": []}', "twice"),
        (b'{"rules": [1]}', r"rules\[0\]"),
        (b'{"rules": [{"role": "a", "actions": ["read"], "topics": "x"}]}', r"rules\[0\]\.topics"),
        (b'{"rules": [{"role": "a", "role": "b", "actions": ["read"]}]}', "twice"),
        (b'{"rules": [{"actions": ["read"]}]}', r"rules\[0\]\.role"),
        (b'{"rules": [{"role": "", "actions": ["read"]}]}', r"rules\[0\]\.role"),
        (b'{"rules": [{"role": "a", "topic": 7, "actions": ["read"]}]}', r"rules\[0\]\.topic"),
        (b'{"rules": [{"role": "a", "topic": "x", "topicPrefix": "x", "actions": ["read"]}]}', "not both"),
        (b'{"rules": [{"role": "a", "actions": []}]}', r"rules\[0\]\.actions"),
        (b'{"rules": [{"role": "a", "actions": ["write"]}]}', "write"),
        (b'{"rules": [{"role": "a", "actions": [["read"]]}]}', r"rules\[0\]\.actions"),
    ],
)
def test_broken_files(content, place):
    """One fault refuses the whole file, so that a misspelt restriction does not widen a rule."""
    with pytest.raises(InvalidInput, match=place):
        Rules.parse(content)


def test_too_many_rules():
    """The bound keeps a wrong file from filling the memory."""
    with pytest.raises(InvalidInput, match=f"at most {RULES_MAX}"):
        rules(*([{"role": "a", "actions": ["read"]}] * (RULES_MAX + 1)))


def test_the_example_of_the_reference():
    """It is a file of rules."""
    (block,) = re.findall(r"```json\n(.*?)```", (ROOT / "docs/reference/actions.md").read_text("utf-8"), re.DOTALL)
    rules = Rules.parse(block.encode())
    assert rules.count == 3
    assert rules.allow("shop", Action.READ, "persistent://shop/orders/paid", "billing")
