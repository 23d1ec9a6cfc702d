"""Every add log keeps its contract."""

from collections.abc import Callable

import pytest

from delayed_tracker.service.clock import SystemClock
from delayed_tracker.service.instruments.measured_add_log import MeasuredAddLog
from delayed_tracker.storage.add_log import AddLog
from delayed_tracker.storage.add_log_registry import open_add_log
from delayed_tracker.storage.memory_log import MemoryAddLog
from delayed_tracker.storage.testing.contract import ContractViolation
from delayed_tracker.storage.testing.contract_log import LOG_CHECKS, LogCheck, LogFactory, check_add_log
from delayed_tracker.storage.testing.faults import FaultPlan
from delayed_tracker.storage.testing.faulty_log import FaultyAddLog


def _memory(_directory) -> LogFactory:
    logs: dict[str, AddLog] = {}
    return lambda name: logs.setdefault(name, MemoryAddLog())


def _sqlite(directory) -> LogFactory:
    return lambda name: open_add_log(f"sqlite:{directory / name}")


def _faulty_memory(_directory) -> LogFactory:
    logs: dict[str, AddLog] = {}
    return lambda name: FaultyAddLog(logs.setdefault(name, MemoryAddLog()), FaultPlan())


def _faulty_sqlite(directory) -> LogFactory:
    return lambda name: open_add_log(f"faulty:seed=1;sqlite:{directory / name}")


def _measured_sqlite(directory) -> LogFactory:
    return lambda name: MeasuredAddLog(open_add_log(f"sqlite:{directory / name}"), "sqlite", SystemClock())


FACTORIES = [_memory, _sqlite, _faulty_memory, _faulty_sqlite, _measured_sqlite]


@pytest.fixture(params=FACTORIES, ids=lambda make: make.__name__.strip("_"))
def factory(request, tmp_path) -> LogFactory:
    make: Callable[..., LogFactory] = request.param
    return make(tmp_path)


@pytest.mark.parametrize("check", LOG_CHECKS, ids=lambda check: check.__name__)
async def test_add_log_keeps_the_contract(factory: LogFactory, check: LogCheck):
    """Each check passes on each log."""
    await check(factory)


async def test_a_violation_names_its_check(tmp_path):
    """One call runs all checks; a log that forgets what was fenced is detected, and the message names the check."""

    class Unfenced(MemoryAddLog):
        @staticmethod
        def _require_owner(*_names) -> None:
            """Let every writer write."""

    await check_add_log(_memory(tmp_path))
    logs: dict[str, AddLog] = {}
    with pytest.raises(ContractViolation, match="everything_survives_closing"):
        await check_add_log(lambda name: logs.setdefault(name, Unfenced()))
