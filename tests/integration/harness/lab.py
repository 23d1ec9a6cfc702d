"""Helpers that tests of the client against a real service share, besides their fixtures."""

import os
from collections.abc import Sequence
from ipaddress import IPv4Address

from tests.integration.harness.dispatcher import now_ms

TOPIC = "persistent://lab/main/delayed"
HOUR_MS = 3_600_000
OWN_ADDRESS = f"{IPv4Address('127.128.0.0') + os.getpid()}:0"
"""Address of services whose port is called again after their end: no other test's service is found there."""


async def add(session, ledger_id: int, count: int, *, in_ms: int = HOUR_MS) -> None:
    """Add the first positions of a ledger."""
    await add_entries(session, ledger_id, range(count), in_ms=in_ms)


async def add_entries(session, ledger_id: int, entry_ids: Sequence[int], *, in_ms: int) -> None:
    """Add positions that become due together, later than asked if they were due before the service had them."""
    count = len(entry_ids)
    while True:
        answer = await session.add_columns([now_ms() + in_ms] * count, [ledger_id] * count, entry_ids)
        if not answer.due_offsets:
            break
        in_ms *= 4
    assert answer.added_count == count
