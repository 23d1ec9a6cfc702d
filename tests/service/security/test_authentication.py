"""Credentials and decisions: which one counts, what is remembered and for how long, and what a warm check costs."""

import time

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.clock import ManualClock, SystemClock
from delayed_tracker.service.errors import PermissionDenied, Unauthenticated
from delayed_tracker.service.instruments.security_counts import SecurityCounts
from delayed_tracker.service.security import authentication
from delayed_tracker.service.security.actions import Action
from delayed_tracker.service.security.authentication import Authenticator, Credentials
from delayed_tracker.service.security.authorization import AuthorizationOptions, Decisions, open_provider
from delayed_tracker.service.security.guard import Guard
from delayed_tracker.service.security.principal import Principal
from delayed_tracker.service.security.token_keys import load_token_keys
from delayed_tracker.service.trackers.principals import PrincipalTrackers
from tests.service.security.secured import SUBSCRIPTION, TOPIC, write_rules
from tests.service.security.tokens import OTHER_SECRET, bearer, data_url, security, token


def authenticator(now_ms=lambda: 0, **changes) -> Authenticator:
    given = security(**changes)
    return Authenticator(given, load_token_keys(given), now_ms=now_ms)


def test_a_token_counts_before_a_certificate():
    """A bad token is refused, even if the certificate or an anonymous role would do."""
    both = authenticator(authentication_providers="token,tls", anonymous_user_role="guest")
    assert both.principal_of(Credentials(bearer(token("shop")), "host")).role == "shop"
    assert both.principal_of(Credentials(None, "host")) == Principal("host", "tls")
    assert both.principal_of(Credentials()) == Principal("guest", "anonymous")
    for bad in ("Bearer x", "Basic x", "", token("shop")):
        with pytest.raises(Unauthenticated):
            both.principal_of(Credentials(bad, "host"))


def test_providers_that_are_not_configured():
    """A certificate is nothing to a service of tokens, and a token nothing to one of certificates."""
    with pytest.raises(Unauthenticated, match="no credential"):
        authenticator().principal_of(Credentials(None, "host"))
    tls = authenticator(
        authentication_providers="org.apache.pulsar.broker.authentication.AuthenticationProviderTls",
        token_secret_key="",
    )
    assert tls.principal_of(Credentials("Bearer x", "host")).role == "host"
    with pytest.raises(Unauthenticated):
        tls.principal_of(Credentials(bearer(token("shop"))))
    with pytest.raises(Unauthenticated, match="no role"):
        tls.principal_of(Credentials(None, "x" * 2_000))


def test_a_remembered_token_ends():
    """A token that was verified once is refused from the millisecond on at which it ends."""
    now = [0]
    known, end = authenticator(lambda: now[0]), int(time.time()) + 100
    given = Credentials(bearer(token("shop", exp=end)))
    now[0] = end * 1_000 - 1
    assert known.principal_of(given).role == "shop"
    now[0] = end * 1_000
    with pytest.raises(Unauthenticated, match="expired") as refused:
        known.principal_of(given)
    assert refused.value.metadata == {"principal": "shop"}


def test_remembered_tokens_are_bounded(monkeypatch):
    """The one that was not used for longest is forgotten, and verified again when it comes."""
    monkeypatch.setattr(authentication, "VERIFIED_TOKENS_MAX", 2)
    known = authenticator()
    for role in "abc":
        assert known.principal_of(Credentials(bearer(token(role)))).role == role
    assert [found.role for found in known._verified.values()] == ["b", "c"]


def test_other_keys_forget_remembered_tokens():
    """A token of a key that is gone is refused at its next call."""
    known, given = authenticator(), Credentials(bearer(token("shop")))
    known.principal_of(given)
    known.use_keys(load_token_keys(security(token_secret_key=data_url(OTHER_SECRET))))
    with pytest.raises(Unauthenticated, match="not signed"):
        known.principal_of(given)


def test_credentials_have_no_representation():
    """A traceback that shows credentials shows no token."""
    assert "secret" not in repr(Credentials("Bearer secret"))


class Counting:
    """Provider that counts how often it is asked."""

    def __init__(self) -> None:
        self.version = 1
        self.asked = 0

    def allows(self, principal, action, topic, subscription) -> bool:
        self.asked += 1
        return self.version == 1

    def refresh(self) -> None:
        """Do nothing."""


def test_decisions_are_remembered_until_the_version_changes():
    """Names that are too long are decided each time, so that the memory has a bound."""
    provider = Counting()
    decisions, shop = Decisions(provider, frozenset({"root"})), Principal("shop", "token")
    assert [decisions.allows(shop, Action.READ, TOPIC) for _ in range(3)] == [True] * 3
    assert provider.asked == 1
    provider.version = 2
    assert not decisions.allows(shop, Action.READ, TOPIC)
    assert decisions.allows(Principal("root", "token"), Action.ADMIN)
    assert provider.asked == 2
    for _ in range(2):
        decisions.allows(shop, Action.READ, "x" * 2_000)
    assert provider.asked == 4


def test_unknown_providers():
    """The error names those that are installed."""
    with pytest.raises(InvalidInput, match="give one of rules"):
        open_provider("org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider", AuthorizationOptions(None))


def guard_of(settings, clock) -> Guard:
    return Guard(settings, clock, counts=SecurityCounts(), holdings=PrincipalTrackers(), retry_after_ms=lambda: 1)


def test_a_warm_check_takes_microseconds(tmp_path):
    """A token and a decision that are remembered cost less than 5 us together; the best of several repeats counts."""
    path = tmp_path / "rules.json"
    write_rules(path, [{"role": "shop", "topicPrefix": "persistent://shop/", "actions": ["dispatch"]}])
    guard = guard_of(security(authorization_enabled=True, authorization_rules_file_path=str(path)), SystemClock())
    given, best = Credentials(bearer(token("shop"))), 1.0
    for _ in range(20):
        begun = time.perf_counter()
        for _ in range(200):
            guard.require(guard.principal_of(given), Action.DISPATCH, TOPIC, SUBSCRIPTION)
        best = min(best, (time.perf_counter() - begun) / 200)
    assert best < 10e-6  # twice the aim: other tests run beside this one


async def test_files_that_change(tmp_path):
    """New keys and rules are in force; broken ones leave the old ones, with an error in the log once for each change."""
    key, rules = tmp_path / "key", tmp_path / "rules.json"
    key.write_bytes(bytes(range(32)))
    write_rules(rules, [{"role": "shop", "actions": ["read"]}])
    given = security(
        token_secret_key=f"file://{key}", authorization_enabled=True, authorization_rules_file_path=str(rules)
    )
    guard = guard_of(given, ManualClock())
    shop = guard.principal_of(Credentials(bearer(token("shop"))))
    guard.require(shop, Action.READ, TOPIC)
    assert guard._reread().problems == {}

    rules.write_text("{")
    key.write_bytes(b"short")
    assert [*guard._reread().problems] == ["token_keys", "rules"]
    assert guard._reread().problems == {}
    guard.require(shop, Action.READ, TOPIC)

    write_rules(rules, [{"role": "shop", "actions": ["metrics"]}])
    key.write_bytes(OTHER_SECRET)
    assert guard._reread().keys is not None
    with pytest.raises(PermissionDenied, match="may not read"):
        guard.require(shop, Action.READ, TOPIC)
    guard.require(shop, Action.METRICS)
    rules.unlink()
    assert [*guard._reread().problems] == ["rules"]
    guard.require(shop, Action.METRICS)


class Failing:
    """A provider of others with a bug."""

    version = 1

    def allows(self, principal, action, topic, subscription):
        return True

    def refresh(self):
        raise ZeroDivisionError("a bug")


async def test_a_provider_that_fails_does_not_end_the_reloading(tmp_path):
    """Its decisions stay, the fault is reported, and keys are read again as before."""
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    path = tmp_path / "rules.json"
    write_rules(path, [])
    given = security(
        token_secret_key=f"file://{key}", authorization_enabled=True, authorization_rules_file_path=str(path)
    )
    guard = guard_of(given, ManualClock())
    guard._decisions = Decisions(Failing(), frozenset())
    key.write_bytes(OTHER_SECRET)
    found = guard._reread()
    assert found.problems == {"rules": "the provider failed: ZeroDivisionError: a bug"}
    assert (found.changed, found.keys is not None) == (["token_keys"], True)
