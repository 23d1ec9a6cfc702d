"""Prometheus' linter accepts our own metric names."""

import subprocess

from prometheus_client import parser

from delayed_tracker.service.clock import SystemClock
from delayed_tracker.service.instruments.measured_storage import MeasuredStorage
from tests.service.harness.shell import KEY as TRACKER
from tests.service.harness.shell import bucketful, indexes, running_service, settle
from tests.service.metrics.scraping import exposition
from tests.service.metrics.served_storage import ServedStorage


def checked(promtool: str, text: str) -> tuple[int, str]:
    """Return exit code and complaints."""
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def without_pulsars(text: str) -> str:
    """Return the text without the families whose names the proposal has fixed."""
    lines = [line for line in text.splitlines() if "pulsar_" not in line.split("{")[0]]
    return "\n".join(lines) + "\n"


async def test_our_own_families_are_clean(promtool: str):
    """The families of a used service, with requests to all kinds of servers, pass the linter."""
    async with running_service() as service:
        registry, now_ms = service.registry, service.clock.now_ms()
        epoch = (await registry.open(TRACKER, owner="tests", mark_delete=None)).epoch
        registry.host(TRACKER).add(epoch, bucketful(now_ms, 1))
        registry.host(TRACKER).seal(epoch)
        await settle()
        registry.host(TRACKER).add(epoch, indexes(now_ms, (2, 0, 10)))
        service.clock.advance(20)
        await registry.host(TRACKER).poll(epoch, max_count=1, wait_ms=0, lease_ms=100)
        storage = MeasuredStorage(ServedStorage(), "memory", SystemClock())
        text = without_pulsars(await exposition(registry, storage=storage))
    assert len(list(parser.text_string_to_metric_families(text))) > 40
    assert checked(promtool, text) == (0, "")


def test_the_linter_would_say_so(promtool: str):
    """The linter rejects a counter with a wrong suffix and a metric without help."""
    code, complaints = checked(promtool, "# TYPE x_seconds counter\nx_seconds 1\n")
    assert code == 3
    assert "_total" in complaints
    assert "help" in complaints
