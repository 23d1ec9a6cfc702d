"""URLs lead to their backend: ours, another distribution's, none, or one that lacks a package."""

import sys

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.errors import StorageBackendMissing, UnknownStorageScheme
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.storage.objects.storage import ObjectStorage
from delayed_tracker.storage.registry import open_storage, storage_schemes
from delayed_tracker.storage.sqlite.storage import SqliteStorage
from delayed_tracker.storage.testing.contract import check_snapshot_storage
from delayed_tracker.storage.testing.faulty import FaultyStorage


def test_our_schemes_are_installed(tmp_path):
    """Each scheme gives its backend, not started; faulty wraps the URL behind it, even with semicolons in it."""
    assert isinstance(open_storage("memory:"), MemoryStorage)
    assert isinstance(open_storage(f"sqlite:{tmp_path / 'a b;c'}"), SqliteStorage)
    assert isinstance(open_storage(f"file://{tmp_path}"), ObjectStorage)
    assert isinstance(open_storage(f"faulty:seed=1;faulty:;sqlite:{tmp_path / 'a;b'}"), FaultyStorage)
    assert {"az", "file", "gs", "memory", "s3", "sqlite", "faulty"} <= set(storage_schemes())


@pytest.mark.parametrize("url", ["ftp:/x", "sqlit:/x", "rados:pool"])
def test_an_unknown_scheme_lists_the_known(url):
    """The error shows the operator the known schemes and the remedy; faulty is for tests and not offered."""
    with pytest.raises(
        UnknownStorageScheme,
        match=r"is not one of az, bookkeeper, file, gs, memory, s3, sqlite\b.*; give one of those, such as",
    ) as raised:
        open_storage(url)
    assert "faulty" not in raised.value.message


@pytest.mark.parametrize("url", ["", "/var/lib/tracker.db", ":memory:", "memory:x"])
def test_a_url_that_is_none_says_what_one_looks_like(url):
    """The error shows the form of a URL, since a bare path is the likely mistake."""
    with pytest.raises(InvalidInput, match="storage URL") as raised:
        open_storage(url)
    assert "faulty" not in raised.value.message


def _install(directory, monkeypatch, module: str, source: str) -> None:
    """Put a distribution with one entry point on the path."""
    (directory / f"{module}.py").write_text(source)
    metadata = directory / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[delayed_tracker.snapshot_storage]\noutside = {module}:open_outside\n")
    monkeypatch.syspath_prepend(directory)
    monkeypatch.delitem(sys.modules, module, raising=False)


async def test_an_outsiders_backend_is_found_and_checked(tmp_path, monkeypatch):
    """A backend of another distribution needs an entry point and the protocol, and can run the contract on itself."""
    source = (
        "from delayed_tracker.storage.memory import MemoryStorage\n"
        "storages = {}\n"
        "def open_outside(rest):\n"
        "    return storages.setdefault(rest, MemoryStorage())\n"
    )
    _install(tmp_path, monkeypatch, "outside_backend", source)
    assert "outside" in storage_schemes()
    await check_snapshot_storage(lambda name: open_storage(f"outside:{name}"))


def test_a_missing_package_is_named_with_what_to_install(tmp_path, monkeypatch):
    """A missing dependency is not reported as an unknown scheme."""
    _install(tmp_path, monkeypatch, "needy_backend", "import a_package_nobody_has\n")
    with pytest.raises(StorageBackendMissing, match=r"'a_package_nobody_has'.*pip install 'needy_backend'"):
        open_storage("outside:x")


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_a_missing_extra_is_named(scheme, monkeypatch):
    """Object stores need an extra of their own, and the error names that one."""
    for module in [name for name in sys.modules if name.split(".")[0] == "obstore"]:
        monkeypatch.delitem(sys.modules, module)
    for name in ("cloud", "obstore_objects"):
        monkeypatch.delitem(sys.modules, f"delayed_tracker.storage.objects.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(StorageBackendMissing, match=r"'obstore.*pip install 'delayed-tracker\[objects\]'"):
        open_storage(f"{scheme}://bucket")
