"""The blocking client says what the asyncio client says."""

import importlib.util
from types import ModuleType

import pytest

from tests.repository.project_tree import ROOT


@pytest.fixture
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generator", ROOT / "tracker" / "regenerate_blocking.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_modules_are_fresh(generator, capsys):
    """Each is what the generator would write."""
    assert generator.main(["--check"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("module", ["client", "lease", "ledgers", "session", "view"])
def test_nothing_of_asyncio_is_left(generator, module):
    """Neither a keyword nor a word about event loops, but for the hint to the other client."""
    text = generator.generate(module).replace("Programs with an event loop use", "")
    for word in ("async ", "await ", "asyncio", "event loop", "client.aio."):
        assert word not in text
