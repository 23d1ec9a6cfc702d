"""Tests of the pause before a client repeats a refused call."""

import pytest

from delayed_tracker.client.errors import Overloaded, SessionClosed, Unavailable
from delayed_tracker.client.queues.overload import pause_before_retry_s

FULL = Overloaded("full", retry_after_s=1.0)


@pytest.mark.parametrize(("chance", "pause_s"), [(0.0, 1.0), (0.5, 1.25), (1.0, 1.5)])
def test_the_pause_is_what_the_service_says_and_up_to_half_more(chance, pause_s):
    """The pause is never shorter than the service's, and has a random part so that clients do not return together."""
    assert pause_before_retry_s(FULL, left_s=10.0, chance=chance) == pause_s


def test_a_pause_that_leaves_no_time_for_the_call_is_not_begun():
    """If the pause leaves no time for the call, the service's error is raised at once, not a timeout."""
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
    """Exhausted leases and unavailable services are not repeated here: acks end the one, gRPC retries the other."""
    assert pause_before_retry_s(error, left_s=10.0, chance=0.0) is None
