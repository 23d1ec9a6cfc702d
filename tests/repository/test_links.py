"""Nothing that a document names is missing: files, headings, modules, settings, metrics."""

import importlib
import re
from pathlib import Path

import pytest

from delayed_tracker.service.instruments.catalogue import FAMILIES
from delayed_tracker.service.security.quotas import QUOTA_KEYS
from delayed_tracker.service.settings.settings import SETTING_KEYS
from tests.repository.documents import PLUGIN_GUIDE, every_document
from tests.repository.project_tree import ROOT, top_level

PAGES = [path for path in every_document() if path.name != "CHANGELOG.md"]
EXAMPLES = {"data", "tracker"}
"""Names at top level that paths of the reader's own machine share with the checkout."""

NOT_SETTINGS = {
    "deliverAtMs", "isNotNull", "onError", "openLedgers", "partitionBytes", "pushFilters", "topicsPattern",
    "delayedDelivery", "isDelayedDelivery", "tasksAtOnce",
    "managedCursorInfoCompressionType", "maxMessageSize", "metadataStoreUrl", "msgDelayed", "nettyMaxFrameSizeBytes", "topicLoadTimeoutSeconds",
    "writeQuorum", "ackQuorum", "tlsCa", "tlsCertificate", "tlsKey", "tlsHostnameVerification",
    "topicPrefix", "subscriptionPrefix", "adminCa", "adminTokenFile", "frameBytesMax", "maxBytesPerSecond", "waitSeconds",
}  # fmt: skip
"""Options of the Spark data source, settings and statistics of brokers and bookies, keys of URLs and of rules, and what the
keys of settings begin with."""

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def anchors(page: Path) -> set[str]:
    """Headings as links name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages
def test_links_lead_somewhere(page: Path):
    """A relative link names a file of the checkout, and its fragment a heading there."""
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path, _, fragment = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not fragment or fragment in anchors(linked), target


@pages
def test_paths_exist(page: Path):
    """A path in backticks whose first part is a folder of the checkout is there."""
    for quoted in re.findall(r"`([\w.*/-]+/[\w.*/-]*)`", page.read_text(encoding="utf-8")):
        if quoted.split("/")[0] in set(top_level()) - EXAMPLES or quoted.startswith("tracker/delayed_tracker"):
            assert list(ROOT.glob(quoted.rstrip("/"))), quoted


@pages
def test_names_of_python_exist(page: Path):
    """A dotted name that begins with delayed_tracker is a module, or something in one."""
    for name in re.findall(r"`(delayed_tracker(?:\.\w+)+)`", page.read_text(encoding="utf-8")):
        if name in {"delayed_tracker.snapshot_storage", "delayed_tracker.authorization", "delayed_tracker.audit"}:
            continue  # groups of entry points, and a logger
        module, found = name, None
        while found is None:
            try:
                found = importlib.import_module(module)
            except ModuleNotFoundError:
                module = module.rpartition(".")[0]
                assert "." in module, name
        for part in name.removeprefix(module).split(".")[1:]:
            found = getattr(found, part)


@pages
def test_settings_and_metrics_exist(page: Path):
    """A word in backticks that looks like a key or a family is one."""
    text = page.read_text(encoding="utf-8")
    families = {family.name for family in FAMILIES}
    if page == ROOT / PLUGIN_GUIDE:
        return  # keys and metrics of a broker; tests/cluster/plugin compares them with the plugin's sources
    for name in re.findall(r"`((?:pulsar_|delayed_tracker_)\w+)`", text):
        assert name in families | {"pulsar_ledger"}, name
    for word in re.findall(r"`([a-z]+(?:[A-Z][a-zA-Z]+)+)(?:=[^`]*)?`", text):
        assert word in set(SETTING_KEYS) | set(QUOTA_KEYS) | NOT_SETTINGS, word
