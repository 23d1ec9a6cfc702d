"""Contract of a storage backend, as checks that the author of a backend can run.

One call runs them all::

    async def test_contract(tmp_path):
        await check_snapshot_storage(lambda name: MyStorage(tmp_path / name))

To see each check by its name, parametrise a test over ``CONTRACT_CHECKS``. Every check opens its own storages.
"""

from typing import Final

from delayed_tracker.storage.testing.contract_catalogue import CATALOGUE_CHECKS, STORAGE_CHECKS
from delayed_tracker.storage.testing.contract_snapshots import SNAPSHOT_CHECKS
from delayed_tracker.storage.testing.contract_tools import Check, ContractViolation, StorageFactory

__all__ = ["CONTRACT_CHECKS", "Check", "ContractViolation", "StorageFactory", "check_snapshot_storage"]

CONTRACT_CHECKS: Final[tuple[Check, ...]] = (*SNAPSHOT_CHECKS, *CATALOGUE_CHECKS, *STORAGE_CHECKS)
"""Every check: an async function that takes the factory and is named after its requirement."""


async def check_snapshot_storage(factory: StorageFactory) -> None:
    """Run every check, one after the other.

    Raises:
        ContractViolation: by the first check that fails; the message begins with its name.
    """
    for check in CONTRACT_CHECKS:
        try:
            await check(factory)
        except ContractViolation as violation:
            raise ContractViolation(f"{check.__name__}: {violation}") from violation
