"""Holds each principal to its quota: rates by token buckets, and bounds on its calls in flight and its trackers.

A call above a rate is refused before its request is read, with the time after which there is room. Requests of a stream
wait instead, unread, so that the sender is slowed down.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from delayed_tracker.service.clock import Clock, pause
from delayed_tracker.service.errors import QuotaExceeded, TrackerKey
from delayed_tracker.service.instruments.security_counts import SecurityCounts
from delayed_tracker.service.security.quotas import UNLIMITED, Quota, Quotas
from delayed_tracker.service.security.token_bucket import TokenBucket

PRINCIPALS_MAX: Final = 10_000
"""Principals whose usage is known; the one that has not called for longest begins anew, unless it has calls in flight."""
PENDING_FRESH_MS: Final = 1_000
"""The pending indexes of a principal are counted again after this time. Meanwhile, what it adds is added to them."""
PACE_MS_MAX: Final = 1_000
"""A stream looks this often at a debt that another file of quotas may have cancelled."""


class Holdings(Protocol):
    """Trackers of each principal."""

    def open_count(self, role: str) -> int:
        """Return the number of trackers that the principal was the last to open. O(1)."""
        ...

    def holds(self, role: str, key: TrackerKey) -> bool:
        """Return True if the principal was the last to open this tracker."""
        ...

    def pending_count(self, role: str) -> int:
        """Return the indexes of these trackers. O(trackers of the principal)."""
        ...


class PrincipalUsage:
    """Usage of one principal.

    Args:
        role: of the principal.
        quota: its limits.
        quotas: of the service.
    """

    __slots__ = (
        "_added_since", "_buckets", "_pending", "_pending_at_ms", "_quota", "_quotas", "in_flight_count",
        "opening_count", "role",
    )  # fmt: skip

    def __init__(self, role: str, quota: Quota, quotas: "PrincipalQuotas") -> None:
        self.role = role
        self.in_flight_count = 0
        """Calls that have begun and not ended."""
        self.opening_count = 0
        """Trackers being opened now."""
        self._quotas = quotas
        self._pending = 0
        self._pending_at_ms: float | None = None
        self._added_since = 0
        self._quota = UNLIMITED
        self._buckets: dict[str, TokenBucket] = {}
        self.adopt(quota)

    def adopt(self, quota: Quota) -> None:
        """Use another quota from now on. Debts are cancelled."""
        if self._quota == quota:
            return
        self._quota = quota
        now_ms = self._quotas.clock.elapsed_ms()
        rates = {
            "callsPerSecond": quota.calls_per_second,
            "indexesPerSecond": quota.indexes_per_second,
            "bytesPerSecond": quota.bytes_per_second,
        }
        self._buckets = {name: TokenBucket(rate, now_ms) for name, rate in rates.items() if rate is not None}

    def begin_call(self) -> None:
        """Count a call, which is in flight until :meth:`end_call`.

        Raises:
            QuotaExceeded: a rate is used up, or as many calls are in flight as may be; nothing was counted.
        """
        maximum = self._quota.calls_in_flight_max
        if maximum is not None and self.in_flight_count >= maximum:
            raise self._quotas.refusal(self.role, "callsInFlightMax", self._quotas.retry_after_ms())
        if self._buckets:
            now_ms = self._quotas.clock.elapsed_ms()
            for name, bucket in self._buckets.items():
                if (wait_ms := bucket.wait_ms(now_ms)) > 0:
                    raise self._quotas.refusal(self.role, name, wait_ms)
            self._take("callsPerSecond", 1, now_ms)
        self.in_flight_count += 1

    def end_call(self) -> None:
        """Note the end of a call that :meth:`begin_call` has counted, however it ended."""
        self.in_flight_count -= 1

    async def begin_request(self) -> None:
        """Count a request of a stream, as soon as no rate is used up."""
        while self._buckets:
            now_ms = self._quotas.clock.elapsed_ms()
            wait_ms = max(bucket.wait_ms(now_ms) for bucket in self._buckets.values())
            if not wait_ms:
                self._take("callsPerSecond", 1, now_ms)
                return
            await pause(self._quotas.clock, min(wait_ms, PACE_MS_MAX))

    def spend(self, *, indexes: int = 0, size: int = 0) -> None:
        """Count indexes and bytes of a call that has begun."""
        if self._buckets:
            now_ms = self._quotas.clock.elapsed_ms()
            self._take("indexesPerSecond", indexes, now_ms)
            self._take("bytesPerSecond", size, now_ms)

    def _take(self, name: str, count: int, now_ms: float) -> None:
        if (bucket := self._buckets.get(name)) is not None:
            bucket.take(count, now_ms)

    def add(self, count: int) -> None:
        """Count indexes that are about to be added, beside :meth:`spend`.

        Raises:
            QuotaExceeded: the principal has as many pending as it may have.
        """
        maximum = self._quota.pending_indexes_max
        if maximum is None:
            return
        now_ms = self._quotas.clock.elapsed_ms()
        if self._pending_at_ms is None or now_ms - self._pending_at_ms >= PENDING_FRESH_MS:
            self._pending = self._quotas.holdings.pending_count(self.role)
            self._pending_at_ms, self._added_since = now_ms, 0
        if self._pending + self._added_since >= maximum:
            raise self._quotas.refusal(self.role, "pendingIndexesMax", PENDING_FRESH_MS)
        self._added_since += count

    @contextmanager
    def opening(self, key: TrackerKey) -> Iterator[None]:
        """Count a tracker that is being opened in this block, and is the principal's afterwards.

        Raises:
            QuotaExceeded: the principal has as many open as it may have.
        """
        maximum, holdings = self._quota.open_trackers_max, self._quotas.holdings
        if maximum is not None and not holdings.holds(self.role, key):
            if holdings.open_count(self.role) + self.opening_count >= maximum:
                raise self._quotas.refusal(self.role, "openTrackersMax", self._quotas.retry_after_ms())
            self.opening_count += 1
            try:
                yield
            finally:
                self.opening_count -= 1
        else:
            yield


class PrincipalQuotas:
    """Quotas of all principals of one service, and their usage.

    Args:
        quotas: in force at first.
        super_users: roles without the default quota.
        holdings: of the service's trackers.
        clock: of the service.
        counts: of refusals.
        retry_after_ms: returns the delay before a retry where nothing tells when there will be room.
    """

    def __init__(
        self,
        quotas: Quotas,
        *,
        super_users: frozenset[str],
        holdings: Holdings,
        clock: Clock,
        counts: SecurityCounts,
        retry_after_ms: Callable[[], int],
    ) -> None:
        self.clock = clock
        self.holdings = holdings
        self.retry_after_ms = retry_after_ms
        self._quotas = quotas
        self._super_users = super_users
        self._counts = counts
        self._usage: OrderedDict[str, PrincipalUsage] = OrderedDict()

    def usage_of(self, role: str) -> PrincipalUsage:
        """Return the usage of a principal."""
        usage = self._usage.get(role)
        if usage is None:
            if len(self._usage) >= PRINCIPALS_MAX:
                self._forget_one()
            usage = self._usage[role] = PrincipalUsage(role, self._quota_of(role), self)
        else:
            self._usage.move_to_end(role)
        return usage

    def _forget_one(self) -> None:
        for _ in range(len(self._usage)):
            role = next(iter(self._usage))
            if not self._usage[role].in_flight_count:
                break
            self._usage.move_to_end(role)
        self._usage.popitem(last=False)

    def adopt(self, quotas: Quotas) -> None:
        """Use other quotas from now on, also for calls under way."""
        self._quotas = quotas
        for role, usage in self._usage.items():
            usage.adopt(self._quota_of(role))

    def refusal(self, role: str, limit: str, retry_after_ms: int) -> QuotaExceeded:
        """Return the error of a call that is refused, and count it."""
        self._counts.over_quota[limit] += 1
        return QuotaExceeded(role, limit, retry_after_ms=retry_after_ms)

    def _quota_of(self, role: str) -> Quota:
        return self._quotas.of(role, is_super_user=role in self._super_users)
