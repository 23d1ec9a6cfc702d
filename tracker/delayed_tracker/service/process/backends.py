"""Backends that settings name: the storage, its add log, ledgers, the collector of spans. Their errors name the setting."""

import contextlib
from typing import TYPE_CHECKING, Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.source_url import require_source, split_sources
from delayed_tracker.service.settings.settings import Settings
from delayed_tracker.storage.add_log import AddLog
from delayed_tracker.storage.add_log_registry import open_add_log
from delayed_tracker.storage.errors import AddLogMissing, StorageBackendMissing, UnknownStorageScheme
from delayed_tracker.storage.protocol import SnapshotStore
from delayed_tracker.storage.registry import open_storage

if TYPE_CHECKING:
    from delayed_tracker.service.telemetry.tracing import Tracing

STORAGE_KEY: Final = "bucketSnapshotStorageUrl"
ADD_LOG_KEY: Final = "addLogUrl"
LEDGER_KEY: Final = "ledgerSourceUrl"


def require_urls(settings: Settings) -> None:
    """Refuse URLs that name no backend, or have not its form, without access to any place.

    A backend whose package is not installed is accepted here: its URL may be for another machine.

    Raises: InvalidInput, UnknownStorageScheme; AddLogMissing if the settings demand one.
    """
    for backend_of in (storage_of, add_log_of):
        with contextlib.suppress(StorageBackendMissing):
            backend_of(settings)
    url = settings.ledger.ledger_source_url
    try:
        for source in split_sources(url):
            require_source(source)
    except InvalidInput as error:
        raise InvalidInput(LEDGER_KEY, url, error.remedy) from error


def storage_of(settings: Settings) -> SnapshotStore:
    """Return the storage that the settings name, not opened yet.

    Raises: InvalidInput, UnknownStorageScheme, StorageBackendMissing.
    """
    try:
        return open_storage(settings.storage.storage_url)
    except InvalidInput as error:
        raise InvalidInput(STORAGE_KEY, error.value, error.remedy) from error
    except (UnknownStorageScheme, StorageBackendMissing) as error:
        raise type(error)(f"{STORAGE_KEY}: {error.message}") from error


def add_log_of(settings: Settings) -> AddLog | None:
    """Return the add log of this instance or of the storage, also if it is only to be emptied; None if there is none.

    Raises: InvalidInput, UnknownStorageScheme, StorageBackendMissing; AddLogMissing if the settings demand one.
    """
    key = ADD_LOG_KEY if settings.storage.add_log_url else STORAGE_KEY
    try:
        return open_add_log(add_log_url_of(settings))
    except InvalidInput as error:
        raise InvalidInput(key, error.value, error.remedy) from error
    except (UnknownStorageScheme, StorageBackendMissing) as error:
        raise type(error)(f"{key}: {error.message}") from error
    except AddLogMissing as error:
        if settings.storage.durable_adds or settings.storage.add_log_url:
            raise AddLogMissing(f"{key}: {error.message}") from error
        return None


def add_log_url_of(settings: Settings) -> str:
    """Return the URL of the storage whose add log is used."""
    return settings.storage.add_log_url or settings.storage.storage_url


def tracing_of(settings: Settings) -> "Tracing | None":
    """Return the exporter of spans, or None if the settings name no collector.

    OpenTelemetry is imported only if needed.

    Raises: InvalidInput if its packages are not installed.
    """
    if not (endpoint := settings.telemetry.tracing_endpoint):
        return None
    try:
        from delayed_tracker.service.telemetry.tracing import Tracing  # noqa: PLC0415
    except ImportError as error:
        remedy = "install the tracing packages: pip install 'delayed-tracker[tracing]', or leave it empty"
        raise InvalidInput("tracingEndpoint", endpoint, remedy) from error
    return Tracing.to(endpoint)
