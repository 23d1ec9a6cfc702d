"""Helpers that tests of the client against a real service share, besides their fixtures."""

from tests.integration.harness.dispatcher import now_ms

TOPIC = "persistent://lab/main/delayed"
HOUR_MS = 3_600_000


async def add(session, ledger_id: int, count: int, *, in_ms: int = HOUR_MS) -> None:
    at_ms = now_ms() + in_ms
    answer = await session.add_columns([at_ms] * count, [ledger_id] * count, range(count))
    assert answer.added_count == count
