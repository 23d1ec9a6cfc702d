"""How long a client waits before it makes a refused call again."""

import pytest

from delayed_tracker.client.errors import Overloaded, SessionClosed, Unavailable
from delayed_tracker.client.queues.overload import pause_before_retry_s

FULL = Overloaded("full", retry_after_s=1.0)


@pytest.mark.parametrize(("chance", "pause_s"), [(0.0, 1.0), (0.5, 1.25), (1.0, 1.5)])
def test_the_pause_is_what_the_service_says_and_up_to_half_more(chance, pause_s):
    """Never less: the service knows best; and not all the same, or all would come back together."""
    assert pause_before_retry_s(FULL, left_s=10.0, chance=chance) == pause_s


def test_a_pause_that_leaves_no_time_for_the_call_is_not_begun():
    """The error that says what is wrong comes at once, and not one that says that time ran out."""
    assert pause_before_retry_s(FULL, left_s=2.4, chance=0.5) is None
    assert pause_before_retry_s(FULL, left_s=2.5, chance=0.5) == 1.25


@pytest.mark.parametrize(
    "error",
    [
        Overloaded("exhausted", reason="LEASES_EXHAUSTED", retry_after_s=1.0),
        Overloaded("refused by somebody in between"),
        Unavailable("recovering", reason="RECOVERING", retry_after_s=1.0),
        SessionClosed("closed"),
    ],
)
def test_other_failures_are_for_the_caller(error):
    """Leases end when they are acknowledged, and what is unavailable gRPC tries again by itself."""
    assert pause_before_retry_s(error, left_s=10.0, chance=0.0) is None
