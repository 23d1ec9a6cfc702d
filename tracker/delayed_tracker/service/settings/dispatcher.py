"""Settings of what dispatchers may ask for: leases, polls, batches, and how many of each at the same time."""

from dataclasses import dataclass

from delayed_tracker.service.settings.keys import Group, Section, check_order, setting

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class DispatcherSettings(Section):
    """Settings of what dispatchers may ask for."""

    default_lease_ms: int = setting(
        30_000,
        "defaultLeaseMillis",
        Group.DISPATCHER,
        "How long polled messages are leased if the poll does not say.",
        unit="ms",
        minimum=1,
        maximum=_INT32_MAX,
        reloadable=True,
    )
    lease_max_ms: int = setting(
        43_200_000,
        "leaseMillisMax",
        Group.DISPATCHER,
        "A poll that asks for a longer lease is refused.",
        unit="ms",
        minimum=1,
        maximum=_INT32_MAX,
        reloadable=True,
    )
    poll_wait_max_ms: int = setting(
        60_000,
        "pollWaitMillisMax",
        Group.DISPATCHER,
        "A poll waits at most this long, whatever it asks for.",
        unit="ms",
        minimum=1,
        maximum=_INT32_MAX,
        reloadable=True,
    )
    poll_messages_max: int = setting(
        10_000,
        "pollMessagesMax",
        Group.DISPATCHER,
        "A poll that asks for more messages is refused.",
        unit="messages",
        minimum=1,
        maximum=10_000_000,
        reloadable=True,
    )
    batch_positions_max: int = setting(
        100_000,
        "batchPositionsMax",
        Group.DISPATCHER,
        "A call that carries more positions is refused.",
        unit="positions",
        minimum=1,
        maximum=10_000_000,
        reloadable=True,
    )
    leased_positions_max: int = setting(
        1_000_000,
        "leasedPositionsMax",
        Group.DISPATCHER,
        "Positions of one tracker that are leased at the same time; a poll gets what is left, and is refused if nothing is.",
        unit="positions",
        minimum=1,
        maximum=1_000_000_000,
        reloadable=True,
    )
    waiting_polls_max: int = setting(
        10_000,
        "waitingPollsMax",
        Group.DISPATCHER,
        "Polls of all trackers that wait at the same time; one more is refused.",
        unit="polls",
        minimum=1,
        maximum=1_000_000,
        reloadable=True,
    )
    calls_max: int = setting(
        20_000,
        "grpcConcurrentCallsMax",
        Group.DISPATCHER,
        "Calls that are under way at the same time, waiting polls and open streams included; one more is refused. Leave "
        "room above waitingPollsMax; otherwise waiting polls leave no room for other calls.",
        unit="calls",
        minimum=1,
        maximum=10_000_000,
        reloadable=True,
    )
    trackers_max: int = setting(
        100_000,
        "trackersMax",
        Group.DISPATCHER,
        "Trackers that are open at the same time; one more is refused.",
        unit="trackers",
        minimum=1,
        maximum=10_000_000,
        reloadable=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_order(("defaultLeaseMillis", self.default_lease_ms), ("leaseMillisMax", self.lease_max_ms))
