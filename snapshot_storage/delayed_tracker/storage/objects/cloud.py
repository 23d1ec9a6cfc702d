"""Factories of the storages in clouds, for the URLs ``s3://``, ``gs://`` and ``az://``; they need the extra ``objects``."""

from datetime import timedelta
from typing import Any, Final

from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

from delayed_tracker.storage.capabilities import RequestCounts
from delayed_tracker.storage.objects.cloud_url import CloudUrl, parse_cloud_url
from delayed_tracker.storage.objects.obstore_objects import ObstoreObjects
from delayed_tracker.storage.objects.storage import ObjectStorage

GS_INTERVAL_S: Final = 1.05
"""Time between two writes of one object: GCS takes one a second, and answers 429 to more."""
CONNECT_TIMEOUT_S: Final = 5


class CloudStorage(ObjectStorage):
    """Snapshots and catalogues in a cloud, with counts of the requests."""

    def __init__(self, objects: ObstoreObjects) -> None:
        super().__init__(objects)
        self._cloud: Final = objects

    @property
    def request_counts(self) -> RequestCounts:
        """Counts of the requests so far."""
        return self._cloud.counts


def open_s3(rest: str) -> CloudStorage:
    """Return the storage of ``s3://BUCKET/PREFIX?region=&endpoint=&requests=&timeout=``; not started. Raises InvalidInput."""
    return CloudStorage(s3_objects(rest))


def open_gs(rest: str) -> CloudStorage:
    """Return the storage of ``gs://BUCKET/PREFIX?endpoint=&requests=&timeout=``; not started. Raises InvalidInput."""
    return CloudStorage(gs_objects(rest))


def open_az(rest: str) -> CloudStorage:
    """Return the storage of ``az://CONTAINER/PREFIX?account=&endpoint=&requests=&timeout=``; not started.

    Raises InvalidInput.
    """
    return CloudStorage(az_objects(rest))


def s3_objects(rest: str) -> ObstoreObjects:
    """Return the objects of a URL of S3. Raises InvalidInput."""
    url = parse_cloud_url("s3", rest)
    # Conditional puts are set here, since the environment could switch them off.
    config = _given(region=url.region, endpoint=url.endpoint, conditional_put="etag")

    def connect(retries: int) -> ObjectStore:
        return S3Store(url.bucket, config=config, **_options(url, retries))

    return ObstoreObjects(str(url), connect, version="e_tag", requests_max=url.requests)


def gs_objects(rest: str, *, min_interval_s: float = GS_INTERVAL_S) -> ObstoreObjects:
    """Return the objects of a URL of GCS, which compares generations and no ETags. Raises InvalidInput."""
    url = parse_cloud_url("gs", rest)
    config = _given(base_url=url.endpoint)

    def connect(retries: int) -> ObjectStore:
        return GCSStore(url.bucket, config=config, **_options(url, retries))

    return ObstoreObjects(
        str(url), connect, version="version", requests_max=url.requests, min_interval_s=min_interval_s
    )


def az_objects(rest: str) -> ObstoreObjects:
    """Return the objects of a URL of Azure. Raises InvalidInput."""
    url = parse_cloud_url("az", rest)
    config = _given(account_name=url.account, endpoint=url.endpoint)

    def connect(retries: int) -> ObjectStore:
        return AzureStore(url.bucket, config=config, **_options(url, retries))

    return ObstoreObjects(str(url), connect, version="e_tag", requests_max=url.requests)


def _given(**values: str) -> Any:
    """Return the values that the URL has; obstore takes all others from the environment."""
    return {key: value for key, value in values.items() if value}


def _options(url: CloudUrl, retries: int) -> Any:
    client: dict[str, Any] = {
        "timeout": timedelta(seconds=url.timeout_s),
        "connect_timeout": timedelta(seconds=min(CONNECT_TIMEOUT_S, url.timeout_s)),
    }
    if url.endpoint.startswith("http://"):
        client["allow_http"] = True
    return {
        "prefix": url.prefix or None,
        "client_options": client,
        "retry_config": {"max_retries": retries, "retry_timeout": timedelta(seconds=url.timeout_s)},
    }
