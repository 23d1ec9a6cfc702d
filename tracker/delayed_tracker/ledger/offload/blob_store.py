"""Objects of a bucket, or files of a directory, read in ranges through obstore; what is fetched is counted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import LedgerFileInvalid


@dataclass(frozen=True, slots=True)
class SmallObject:
    """A whole object."""

    content: bytes
    user_metadata: Mapping[str, str]
    """Keys in lower case; empty where the store keeps none."""


class BlobStore:
    """One bucket or directory, or the part of it below a prefix."""

    def __init__(self, name: str, store: Any) -> None:
        """Wrap a store.

        Args:
            name: its URL, for messages.
            store: of obstore.
        """
        self.name = name
        self.bytes_fetched = 0
        """By all reads so far; listings are not counted."""
        self.requests = 0
        """Reads and listings so far."""
        self._store = store
        self._obstore = _obstore()

    def __reduce__(self) -> tuple[Callable[[str], "BlobStore"], tuple[str]]:
        """Another process opens it anew, with its own environment."""
        return open_blob_store, (self.name,)

    def sizes(self) -> Mapping[str, int]:
        """Size by key of the objects that lie directly there, ascending by key.

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
        """Bytes of an object; None when there is none.

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
        """A range of an object, copied out of it once.

        Args:
            key: of the object.
            start: the first byte.
            end: behind the last byte, which the object must have.
        Raises:
            LedgerFileInvalid: the object is gone or is shorter.
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
        """An object and what its writer said about it; None when there is none.

        Raises:
            LedgerFileInvalid: it is larger than it may be.
            OSError: the store does not answer.
        """
        self.requests += 1
        try:
            answer = self._obstore.get(self._store, key)
            size = answer.meta["size"]
            if size > size_max:
                raise LedgerFileInvalid(
                    f"{self.name}/{key} has {size} bytes; an index of at most {size_max} is believed"
                )
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
    """A store by its URL, or by the path of a directory.

    Args:
        place: ``s3://bucket/prefix``, ``gs://``, ``az://``, ``file:///directory`` or a path. What a cloud needs to
            know besides comes from the environment, as its own tools take it: ``AWS_REGION``, ``AWS_ENDPOINT``, ...
    Raises:
        InvalidInput: no such directory, a scheme that is not known, or obstore is not installed.
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
    """What a client of buckets says; on further lines it tells its inner workings."""
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
