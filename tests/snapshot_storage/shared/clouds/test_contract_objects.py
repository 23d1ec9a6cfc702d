"""Every object store keeps both contracts: that of all storages, and that of shared ones."""

import asyncio

import pytest

from delayed_tracker.storage.objects.storage import ObjectStorage
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.storage.testing.contract import CONTRACT_CHECKS, Check, check_snapshot_storage
from delayed_tracker.storage.testing.contract_shared import SHARED_CHECKS, SharedCheck, check_shared_storage
from delayed_tracker.storage.testing.faulty import FaultPlan, FaultyStorage
from delayed_tracker.storage.testing.shared_faults import FaultyObjects
from tests.snapshot_storage.shared.clouds.conftest import Cloud


@pytest.mark.parametrize("check", CONTRACT_CHECKS, ids=lambda check: check.__name__)
async def test_store_keeps_the_contract(cloud: Cloud, place: str, check: Check):
    """Each check of every storage passes."""
    await check(lambda name: ObjectStorage(cloud.objects(f"{place}/{name}")))


@pytest.mark.parametrize("check", SHARED_CHECKS, ids=lambda check: check.__name__)
async def test_store_keeps_the_shared_contract(cloud: Cloud, place: str, check: SharedCheck):
    """Each check of shared storages passes."""
    await check(lambda name, faults: ObjectStorage(FaultyObjects(cloud.objects(f"{place}/{name}"), faults)))


@pytest.mark.deep
async def test_store_keeps_the_contracts_behind_faulty(cloud: Cloud, place: str):
    """The wrapper of ``faulty:`` changes nothing."""
    await check_snapshot_storage(
        lambda name: FaultyStorage(ObjectStorage(cloud.objects(f"{place}/{name}")), FaultPlan())
    )
    await check_shared_storage(
        lambda name, faults: FaultyStorage(
            ObjectStorage(FaultyObjects(cloud.objects(f"{place}/shared/{name}"), faults)), FaultPlan()
        )
    )


async def test_a_url_opens_its_store(cloud: Cloud, place: str):
    """Two storages of one URL share their content, also behind ``faulty:``, and in the cloud's own way."""
    url = f"{cloud.scheme}:{cloud.rest(place)}"
    first, second = open_storage(url), open_storage(f"faulty:seed=1;{url}")
    await asyncio.gather(first.start(), second.start())
    await first.replace("topic", "cursor", remove=[], add=[], epoch=3)
    assert (await second.list("topic", "cursor")).epoch == 3
    await first.close()
    await second.close()
