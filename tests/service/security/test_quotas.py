"""Quotas: their file, the rates, and what a principal's trackers hold; with a clock that the tests move."""

import asyncio
import contextlib
import json

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import QuotaExceeded, TrackerKey
from delayed_tracker.service.instruments.security_counts import QUOTA_LIMITS, SecurityCounts
from delayed_tracker.service.security import quota_usage
from delayed_tracker.service.security.quota_usage import PENDING_FRESH_MS, PrincipalQuotas
from delayed_tracker.service.security.quotas import QUOTA_KEYS, UNLIMITED, Quota, Quotas

KEY = TrackerKey("persistent://shop/orders/paid", "billing")


class Held:
    """Trackers of one principal."""

    def __init__(self, *keys, pending=0):
        self.keys, self.pending, self.counted = set(keys), pending, 0

    def open_count(self, role):
        return len(self.keys)

    def holds(self, role, key):
        return key in self.keys

    def pending_count(self, role):
        self.counted += 1
        return self.pending


def quotas_of(quota, *, clock=None, held=None, counts=None, **more) -> PrincipalQuotas:
    return PrincipalQuotas(
        Quotas({"shop": quota}, more.pop("default", UNLIMITED)),
        super_users=frozenset({"root"}),
        holdings=held or Held(),
        clock=clock or ManualClock(),
        counts=counts or SecurityCounts(),
        retry_after_ms=lambda: 1_000,
    )


def parsed(document) -> Quotas:
    return Quotas.parse(json.dumps(document).encode())


def test_a_file_of_quotas():
    """A named role has its own quota, super users have none, all others the default."""
    quotas = parsed({"default": {"callsPerSecond": 5}, "roles": {"shop": {"bytesPerSecond": 7, "openTrackersMax": 0}}})
    assert quotas.of("shop") == Quota(bytes_per_second=7, open_trackers_max=0)
    assert quotas.of("other") == Quota(calls_per_second=5)
    assert quotas.of("root", is_super_user=True) == UNLIMITED
    assert quotas.of("shop", is_super_user=True) == quotas.of("shop")
    assert parsed({}).of("other") == UNLIMITED


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (b"", "quotas"),
        (b"[]", "quotas"),
        (b'{"roles": {}, "roles": {}}', "quotas"),
        (b'{"quota": {}}', "quotas"),
        (b'{"roles": []}', "roles"),
        (b'{"roles": {"": {}}}', "roles"),
        (b'{"roles": {"shop": 5}}', "roles.shop"),
        (b'{"roles": {"shop": {"callsPerSeccond": 5}}}', "roles.shop.callsPerSeccond"),
        (b'{"default": {"callsPerSecond": 0}}', "default.callsPerSecond"),
        (b'{"default": {"callsPerSecond": true}}', "default.callsPerSecond"),
        (b'{"default": {"callsPerSecond": 1.5}}', "default.callsPerSecond"),
        (b'{"default": {"pendingIndexesMax": -1}}', "default.pendingIndexesMax"),
        (b'{"default": {"bytesPerSecond": 9007199254740993}}', "default.bytesPerSecond"),
        (b"[" * 100_000, "quotas"),
    ],
)
def test_a_malformed_file_names_the_place(content, field):
    """A typing error never widens a quota."""
    with pytest.raises(InvalidInput) as refused:
        Quotas.parse(content)
    assert refused.value.field == field


def test_more_roles_than_the_bound_are_refused():
    """The memory for quotas has a bound."""
    with pytest.raises(InvalidInput, match="at most 50000"):
        parsed({"roles": {f"role-{number}": {} for number in range(50_001)}})


def test_the_counted_limits_are_those_of_the_file():
    """Each key has its series in the metrics."""
    assert set(QUOTA_LIMITS) == set(QUOTA_KEYS)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_rate_holds_whatever_the_sizes_are(size):
    """Over ten minutes, what passes is the rate and one burst, give or take the last call."""
    clock = ManualClock()
    usage = quotas_of(Quota(indexes_per_second=50), clock=clock).usage_of("shop")
    passed = 0
    for _ in range(60_000):
        with contextlib.suppress(QuotaExceeded):
            usage.begin_call()
            usage.spend(indexes=size)
            passed += size
        clock.advance(10)
    assert 600 * 50 <= passed <= 601 * 50 + size


def test_the_delay_of_a_refusal_is_enough():
    """A caller that waits as long as the refusal says is let in, and not a moment before."""
    clock, counts = ManualClock(), SecurityCounts()
    usage = quotas_of(Quota(calls_per_second=10), clock=clock, counts=counts).usage_of("shop")
    for _ in range(10):
        usage.begin_call()
    with pytest.raises(QuotaExceeded, match="'shop' has used up its quota callsPerSecond") as refused:
        usage.begin_call()
    assert refused.value.retry_after_ms == 100
    clock.advance(99)
    with pytest.raises(QuotaExceeded):
        usage.begin_call()
    clock.advance(1)
    usage.begin_call()
    assert counts.over_quota["callsPerSecond"] == 2


def test_bytes_count_in_both_directions():
    """A principal that used up its bytes is refused by their name."""
    usage = quotas_of(Quota(bytes_per_second=1_000)).usage_of("shop")
    usage.begin_call()
    usage.spend(size=600)
    usage.spend(size=600)
    with pytest.raises(QuotaExceeded, match="bytesPerSecond"):
        usage.begin_call()


async def test_requests_of_a_stream_wait_for_their_turn():
    """A stream is slowed down to the rate instead of being refused, and goes on at once when the quota is raised."""
    clock = ManualClock()
    quotas = quotas_of(Quota(calls_per_second=2), clock=clock)
    usage = quotas.usage_of("shop")
    await usage.begin_request()
    await usage.begin_request()
    waiting = asyncio.create_task(usage.begin_request())
    await asyncio.sleep(0)
    clock.advance(499)
    await asyncio.sleep(0)
    assert not waiting.done()
    clock.advance(1)
    await waiting
    usage.spend(indexes=5)
    waiting = asyncio.create_task(usage.begin_request())
    await asyncio.sleep(0)
    quotas.adopt(Quotas({"shop": Quota(calls_per_second=1_000)}))
    clock.advance(500)
    await waiting


def test_open_trackers():
    """A principal opens as many as it may, and those that it holds again; opens under way count."""
    held = Held(KEY)
    usage = quotas_of(Quota(open_trackers_max=2), held=held).usage_of("shop")
    with usage.opening(KEY), usage.opening(KEY), usage.opening(KEY._replace(subscription="second")):  # noqa: SIM117
        with pytest.raises(QuotaExceeded, match="openTrackersMax"), usage.opening(KEY._replace(subscription="third")):
            pass
    with pytest.raises(ValueError, match="failed"), usage.opening(KEY._replace(subscription="second")):
        raise ValueError("failed")
    with usage.opening(KEY._replace(subscription="second")):
        pass


def test_calls_in_flight():
    """A refused call is not counted, the count is known when the limit comes, and it is zero when all have ended."""
    counts = SecurityCounts()
    quotas = quotas_of(UNLIMITED, counts=counts)
    usage = quotas.usage_of("shop")
    for _ in range(3):
        usage.begin_call()
    quotas.adopt(Quotas({"shop": Quota(calls_in_flight_max=3, calls_per_second=1)}))
    for _ in range(2):
        with pytest.raises(QuotaExceeded, match="'shop' has used up its quota callsInFlightMax") as refused:
            usage.begin_call()
    assert refused.value.retry_after_ms == 1_000
    usage.end_call()
    usage.begin_call()
    assert usage.in_flight_count == 3
    usage.end_call()
    with pytest.raises(QuotaExceeded, match="callsPerSecond"):
        usage.begin_call()
    usage.end_call()
    usage.end_call()
    assert usage.in_flight_count == 0
    assert counts.over_quota["callsInFlightMax"] == 2


def test_pending_indexes():
    """Indexes added since the last count count, and those that are gone are noticed within a second."""
    clock, held = ManualClock(), Held(KEY, pending=90)
    usage = quotas_of(Quota(pending_indexes_max=100), clock=clock, held=held).usage_of("shop")
    usage.add(9)
    usage.add(500)  # begun below the limit, so it is done whole
    for _ in range(3):
        with pytest.raises(QuotaExceeded, match="pendingIndexesMax"):
            usage.add(1)
    assert held.counted == 1
    held.pending = 99
    clock.advance(PENDING_FRESH_MS)
    usage.add(1)
    assert held.counted == 2


def test_a_changed_file_holds_for_known_principals():
    """A quota that stays keeps its debt; one that changes begins anew."""
    quotas = quotas_of(Quota(calls_per_second=1), default=Quota(calls_per_second=1))
    for role in ("shop", "other"):
        quotas.usage_of(role).begin_call()
    quotas.adopt(Quotas({"shop": Quota(calls_per_second=1)}, UNLIMITED))
    with pytest.raises(QuotaExceeded):
        quotas.usage_of("shop").begin_call()
    for _ in range(3):
        quotas.usage_of("other").begin_call()


def test_the_usage_of_principals_has_a_bound(monkeypatch):
    """The principal that has not called for longest is forgotten."""
    monkeypatch.setattr(quota_usage, "PRINCIPALS_MAX", 2)
    quotas = quotas_of(UNLIMITED)
    first, second = quotas.usage_of("first"), quotas.usage_of("second")
    assert quotas.usage_of("first") is first
    quotas.usage_of("third")
    assert quotas.usage_of("first") is first
    assert quotas.usage_of("second") is not second


def test_a_principal_with_calls_in_flight_is_not_forgotten(monkeypatch):
    """Idle streams count, however many others have called since they began; the bound holds if all have calls."""
    monkeypatch.setattr(quota_usage, "PRINCIPALS_MAX", 2)
    quotas = quotas_of(UNLIMITED)
    first = quotas.usage_of("first")
    first.begin_call()
    for name in ("second", "third", "fourth"):
        quotas.usage_of(name)
        assert quotas.usage_of("first") is first
    quotas.usage_of("fourth").begin_call()
    quotas.usage_of("fifth")
    assert len(quotas._usage) == 2
