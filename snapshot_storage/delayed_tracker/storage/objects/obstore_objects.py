"""Objects in S3, Google Cloud Storage and Azure Blob Storage, through obstore.

Conditional puts, reads and deletes are sent once: a second attempt could not tell whether the first one was done, and the
callers know how to find out. Only the parts of a large object, which appears when all are there, are sent again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final, Literal, TypeVar
from uuid import uuid4

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import ObjectStore

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.capabilities import RequestCounts
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.objects.keys import IMMUTABLE
from delayed_tracker.storage.objects.object_store import (
    RANGE_BYTES_MAX,
    SMALL_BYTES_MAX,
    ListedObject,
    require_listable,
    require_readable,
)
from delayed_tracker.storage.objects.probe import require_conditional_puts
from delayed_tracker.storage.shared.document_store import Stale, StoredDocument

if TYPE_CHECKING:
    from obstore import GetResult, PutMode

T = TypeVar("T")

PART_BYTES: Final = 8 * 1024 * 1024
"""Objects up to this size are one request, larger ones have parts of it."""
PARTS_AT_ONCE: Final = 4
"""Parts of one object that are on their way at the same time."""
PART_RETRIES: Final = 3
_LISTED_AT_ONCE: Final = 1_000
_SHOWN_CHARACTERS_MAX: Final = 300


class ObstoreObjects:
    """Objects below a prefix of a bucket.

    Args:
        name: URL of the place, for messages.
        connect: makes obstore's store, which retries a request as often as it is told.
        version: field of obstore's answers that names a version: the ETag, or the generation of GCS.
        min_interval_s: time that must pass between two writes of one key.
        requests_max: requests that are on their way at the same time; others wait. Parts of large objects come on top,
            ``PARTS_AT_ONCE`` for each object that is written.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[int], ObjectStore],
        *,
        version: Literal["e_tag", "version"],
        requests_max: int,
        min_interval_s: float = 0.0,
    ) -> None:
        self.name: Final = name
        self._connect = connect
        self._version: Final = version
        self._slots = asyncio.Semaphore(requests_max)
        self._stores: tuple[ObjectStore, ObjectStore] | None = None
        self._under_way: set[asyncio.Task[object]] = set()
        self.min_interval_s: Final = min_interval_s
        self.counts: Final = RequestCounts()

    async def start(self) -> None:
        """Verify that the store can be reached and refuses stale puts.

        Raises:
            InvalidInput: a setting of the environment is not valid.
            StorageFormatUnsupported: the store takes a stale put.
            StorageUnavailable: it cannot be reached, the bucket does not exist, or the credentials do not suffice.
        """
        try:
            self._stores = self._connect(0), self._connect(PART_RETRIES)
        except (BaseError, ValueError, OSError) as error:
            raise InvalidInput(
                "storage URL",
                self.name,
                f"correct it, or the settings of the cloud's client in the environment: {_shown(error)}",
            ) from error
        usable = False
        try:
            await require_conditional_puts(self, f"probe/{uuid4().hex}")
            usable = True
        finally:
            if not usable:
                await self.close()

    async def close(self) -> None:
        """Wait for the requests that are on their way."""
        self._stores = None
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        """Store an object; one of more than ``PART_BYTES`` in parts, which nobody sees before all are there."""
        waiting, size_bytes = [], 0
        async for chunk in chunks:
            waiting.append(chunk)
            size_bytes += len(chunk)
            if size_bytes > PART_BYTES:
                return await self._put_in_parts(key, waiting, chunks)
        content = b"".join(waiting)
        await self._request(
            "put",
            key,
            lambda store: obstore.put_async(store, key, content, use_multipart=False),
            sent=size_bytes,
            changes=True,
        )
        return size_bytes

    async def _put_in_parts(self, key: str, waiting: list[bytes], chunks: AsyncIterator[bytes]) -> int:
        """Store an object chunk by chunk. After an error its parts stay hidden in the store, until that deletes them."""
        writer = obstore.open_writer_async(
            self._opened()[1], key, buffer_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
        )
        size_bytes = 0

        async def write(chunk: bytes) -> None:
            nonlocal size_bytes
            parts = (size_bytes + len(chunk)) // PART_BYTES - size_bytes // PART_BYTES
            size_bytes += len(chunk)
            await self._request("part", key, lambda _: writer.write(chunk), count=parts, sent=len(chunk))

        for chunk in waiting:
            await write(chunk)
        waiting.clear()
        async for chunk in chunks:
            await write(chunk)
        # The last part, and the requests that begin and end all.
        count = 3 if size_bytes % PART_BYTES else 2
        await self._request("part", key, lambda _: writer.close(), count=count, changes=True)
        return size_bytes

    async def put_if(self, key: str, content: bytes, expected: str | None) -> str:
        """Replace a small object by a conditional put. What the store does not take for sure is ``Stale``."""
        # obstore refuses a key whose value is None: only the field that this store compares may be there.
        mode: PutMode = "create" if expected is None else self._expecting(expected)
        try:
            answer = await self._request(
                "write",
                key,
                lambda store: obstore.put_async(store, key, content, mode=mode),
                sent=len(content),
                changes=True,
                answers=(AlreadyExistsError, PreconditionError),
            )
        except (AlreadyExistsError, PreconditionError) as error:
            # Also S3's answer 409 to a write during another one, which says nothing about either.
            raise Stale(f"{self.name}/{key} was written by another process; read it again") from error
        return self._version_of(key, answer[self._version])

    def _expecting(self, version: str) -> "PutMode":
        return {"e_tag": version} if self._version == "e_tag" else {"version": version}

    def _version_of(self, key: str, version: str | None) -> str:
        if version is None:
            raise StorageUnavailable(
                f"{self.name}/{key}: the store does not say which version it is; use a store with "
                f"{'ETags' if self._version == 'e_tag' else 'generations'}, without a proxy that drops headers"
            )
        return version

    async def get(self, key: str) -> StoredDocument | None:
        """Return a small object; raises SnapshotCorrupt if it is larger than anything that this program writes."""

        async def read(store: ObjectStore) -> StoredDocument:
            answer = await obstore.get_async(store, key)
            content = await self._content(answer, key, answer.meta["size"], SMALL_BYTES_MAX)
            return StoredDocument(content, self._version_of(key, answer.meta[self._version]))

        try:
            return await self._request("read", key, read, answers=(FileNotFoundError,))
        except FileNotFoundError:
            return None

    async def get_range(self, key: str, first: int, end: int) -> bytes | None:
        """Return a range of an object; raises SnapshotCorrupt if it has more than ``RANGE_BYTES_MAX``."""

        async def read(store: ObjectStore) -> bytes:
            answer = await obstore.get_async(store, key, options={"range": (first, end)})
            return await self._content(answer, key, answer.range[1] - answer.range[0], RANGE_BYTES_MAX)

        async def size_of(store: ObjectStore) -> int:
            return (await obstore.head_async(store, key))["size"]

        try:
            if first < end:
                try:
                    return await self._request("get", key, read, answers=(FileNotFoundError,))
                except StorageUnavailable:
                    # A store refuses a range behind the end, and obstore does not say that this is why.
                    if first == 0 or await self._request("head", key, size_of, answers=(FileNotFoundError,)) > first:
                        raise
            else:
                await self._request("head", key, size_of, answers=(FileNotFoundError,))
        except FileNotFoundError:
            return None
        return b""

    async def _content(self, answer: "GetResult", key: str, size_bytes: int, most: int) -> bytes:
        require_readable(f"{self.name}/{key}", size_bytes, most)
        content = bytes(await answer.bytes_async())
        self.counts.bytes_received += len(content)
        return content

    async def delete(self, key: str) -> bool:
        """Delete an object if it exists."""
        try:
            await self._request(
                "delete",
                key,
                lambda store: obstore.delete_async(store, key),
                changes=True,
                answers=(FileNotFoundError,),
            )
        except FileNotFoundError:
            return False
        return True

    async def listing(self, prefix: str) -> list[ListedObject]:
        """Return the objects below a prefix; raises StorageUnavailable if they are more than ``LISTED_MAX``."""
        # A text for each of a million objects takes memory, and what is never replaced has one version.
        has_versions = not prefix.startswith(f"{IMMUTABLE}/")

        async def read(store: ObjectStore) -> list[ListedObject]:
            found: list[ListedObject] = []
            async for batch in obstore.list(store, prefix, chunk_size=_LISTED_AT_ONCE):
                if found:
                    self.counts.add("list")
                    self.counts.add_outcome("list", "ok")
                found += (
                    ListedObject(meta["path"], meta["size"], (meta["e_tag"] or "") if has_versions else "")
                    for meta in batch
                )
                require_listable(f"{self.name}/{prefix}", len(found))
            return found

        return await self._request("list", prefix, read)

    async def _request(
        self,
        operation: str,
        key: str,
        work: Callable[[ObjectStore], Awaitable[T]],
        *,
        count: int = 1,
        sent: int = 0,
        changes: bool = False,
        answers: tuple[type[Exception], ...] = (),
    ) -> T:
        """Perform a request, or what amounts to ``count`` requests, in one of the slots.

        A caller that is cancelled waits for the end of a request that changes something: the store may perform it, and
        the caller can undo it only then.

        Raises:
            StorageUnavailable: for every error of the store but ``answers``, which the caller understands.
        """
        async with self._slots:
            store = self._opened()[0]
            counts, began_s, outcome = self.counts, asyncio.get_running_loop().time(), "failed"
            counts.add(operation, count, sent=sent)
            counts.in_flight += 1
            task = asyncio.ensure_future(work(store))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
            try:
                answer = await asyncio.shield(task)
            except asyncio.CancelledError:
                outcome = "cancelled"
                if not changes:
                    task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.exception()  # the caller has another error, and asyncio complains of one that nobody has seen
                raise
            except answers as error:
                outcome = "not_found" if isinstance(error, FileNotFoundError) else "conflict"
                raise
            except (BaseError, OSError, ValueError, NotImplementedError) as error:
                counts.add_failure(operation)
                raise self._unavailable(operation, key, error) from error
            else:
                outcome = "ok"
                return answer
            finally:
                counts.in_flight -= 1
                if count:  # a part that is not full is sent later
                    counts.add_outcome(operation, outcome, count)
                    counts.add_time(operation, asyncio.get_running_loop().time() - began_s)

    def _opened(self) -> tuple[ObjectStore, ObjectStore]:
        if self._stores is None:
            raise StorageUnavailable(f"{self.name} is not open; call start() first")
        return self._stores

    def _unavailable(self, operation: str, key: str, error: Exception) -> StorageUnavailable:
        if isinstance(error, FileNotFoundError):
            remedy = "there is no such bucket; create it first"
        elif isinstance(error, PermissionDeniedError | UnauthenticatedError):
            remedy = "check the credentials, and that they allow to list, read, write and delete objects there"
        else:
            remedy = "check the endpoint, the network and the store; the call may be repeated"
        return StorageUnavailable(f"{operation} of {self.name}/{key} failed: {_shown(error)}; {remedy}")


def _shown(error: Exception) -> str:
    """Return the first line of an error's message; further lines contain internal details."""
    return str(error).strip().partition("\n")[0][:_SHOWN_CHARACTERS_MAX]
