"""Objects of a bucket, or files of a directory, read in ranges through obstore; fetched bytes are counted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import LedgerFileInvalid


@dataclass(frozen=True, slots=True)
class SmallObject:
    """Content and metadata of an object."""

    content: bytes
    user_metadata: Mapping[str, str]
    """User metadata, keys in lower case; empty if the store keeps none."""


class BlobStore:
    """One bucket or directory, or the part of it below a prefix."""

    def __init__(self, name: str, store: Any) -> None:
        """Wrap a store.

        Args:
            name: its URL, for messages.
            store: a store object of obstore.
        """
        self.name = name
        self.bytes_fetched = 0
        """Bytes fetched by all reads so far; listings are not counted."""
        self.requests = 0
        """Number of reads and listings so far."""
        self._store = store
        self._obstore = _obstore()

    def __reduce__(self) -> tuple[Callable[[str], "BlobStore"], tuple[str]]:
        """Open the store again in the process that unpickles it, with that process's environment."""
        return open_blob_store, (self.name,)

    def sizes(self) -> Mapping[str, int]:
        """Return the sizes of the objects directly in the store, by key, ascending.

        Raises:
            OSError: the store cannot be listed.
        """
        self.requests += 1
        try:
            listed = self._obstore.list_with_delimiter(self._store)["objects"]
        except self._failure as error:
            raise OSError(f"{self.name} cannot be listed: {first_line(error)}") from error
        return {meta["path"]: meta["size"] for meta in sorted(listed, key=lambda meta: meta["path"])}

    def size(self, key: str) -> int | None:
        """Return the size of an object in bytes; None if it does not exist.

        Raises:
            OSError: the store does not answer.
        """
        self.requests += 1
        try:
            size: int = self._obstore.head(self._store, key)["size"]
        except FileNotFoundError:
            return None
        except self._failure as error:
            raise OSError(f"{self.name}/{key} cannot be read: {first_line(error)}") from error
        return size

    def fetch(self, key: str, start: int, end: int) -> bytes:
        """Fetch a range of an object; the bytes are copied once.

        Args:
            key: the key of the object.
            start: the offset of the first byte.
            end: the offset behind the last byte; the object must contain it.
        Raises:
            LedgerFileInvalid: the object is missing or shorter.
            OSError: the store does not answer.
        """
        if start >= end:
            return b""
        self.requests += 1
        try:
            fetched = bytes(self._obstore.get_range(self._store, key, start=start, end=end))
        except FileNotFoundError as error:
            raise LedgerFileInvalid(f"{self.name}/{key} is gone; open the source again") from error
        except self._failure as error:
            raise OSError(f"{self.name}/{key} cannot be read at byte {start}: {first_line(error)}") from error
        self.bytes_fetched += len(fetched)
        if len(fetched) != end - start:
            raise LedgerFileInvalid(f"{self.name}/{key} ends at byte {start + len(fetched)}, {end} were expected")
        return fetched

    def read_small(self, key: str, size_max: int) -> SmallObject | None:
        """Read a whole object and its user metadata; return None if it does not exist.

        Raises:
            LedgerFileInvalid: the object is larger than ``size_max``.
            OSError: the store does not answer.
        """
        self.requests += 1
        try:
            answer = self._obstore.get(self._store, key)
            size = answer.meta["size"]
            if size > size_max:
                raise LedgerFileInvalid(f"{self.name}/{key} has {size} bytes; an index may have at most {size_max}")
            content = bytes(answer.bytes())
        except FileNotFoundError:
            return None
        except self._failure as error:
            raise OSError(f"{self.name}/{key} cannot be read: {first_line(error)}") from error
        self.bytes_fetched += len(content)
        return SmallObject(content, {key.lower(): value for key, value in answer.attributes.items()})

    @property
    def _failure(self) -> type[Exception]:
        failure: type[Exception] = self._obstore.exceptions.BaseError
        return failure


def open_blob_store(place: str) -> BlobStore:
    """Open a store by its URL, or by the path of a directory.

    Args:
        place: ``s3://bucket/prefix``, ``gs://``, ``az://``, ``file:///directory`` or a path. Other settings of a cloud
            come from the environment, as for its own tools: ``AWS_REGION``, ``AWS_ENDPOINT``, ...
    Raises:
        InvalidInput: the directory does not exist, the scheme is not known, or obstore is not installed.
    """
    store = _obstore().store
    path = Path(place.removeprefix("file://"))
    if place.startswith("file://") or "://" not in place:
        if not path.is_dir():
            raise InvalidInput("blob store", place, "give a directory that exists, or a URL: s3://bucket, gs://, az://")
        return BlobStore(str(path), store.LocalStore(path.resolve()))
    try:
        return BlobStore(place.rstrip("/"), store.from_url(place))
    except (_obstore().exceptions.BaseError, ValueError) as error:
        raise InvalidInput(
            "blob store", place, f"give s3://, gs://, az:// or file:// and what it needs: {first_line(error)}"
        ) from error


def first_line(error: Exception) -> str:
    """Return the first line of a store client's message; further lines contain internal details."""
    return str(error).strip().partition("\n")[0]


def _obstore() -> Any:
    try:
        module = import_module("obstore")
        import_module("obstore.store")
        import_module("obstore.exceptions")
    except ModuleNotFoundError as error:
        raise InvalidInput(
            "source", "offload+blob", "install what reads blob stores: pip install 'delayed-tracker[offload]'"
        ) from error
    return module
