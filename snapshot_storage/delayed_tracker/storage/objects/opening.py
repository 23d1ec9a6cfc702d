"""Factory of the storage in files, for its URL; those in clouds are in ``cloud.py``, which needs one more package."""

from pathlib import Path

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.capabilities import StorageSpace
from delayed_tracker.storage.objects.file_objects import FileObjects
from delayed_tracker.storage.objects.storage import ObjectStorage


class FileStorage(ObjectStorage):
    """Snapshots and catalogues in files, with the space that they take."""

    def __init__(self, objects: FileObjects) -> None:
        super().__init__(objects)
        self._files = objects

    async def space(self) -> StorageSpace:
        """Return the size of the files, counted within the last minute, and the space that is free."""
        return await self._files.space()


def open_file(rest: str) -> FileStorage:
    """Return the storage in the directory of ``file:///DIR``; not started.

    The directory may be shared by processes of one machine. It must not be on a network file system: whether those keep
    locks, and the order of writes and renames, depends on their options.

    Raises:
        InvalidInput: the URL has a host, or no absolute path.
    """
    if not rest.startswith("///") or not rest.strip("/"):
        raise InvalidInput("storage URL", f"file:{rest}", "write file:///DIR, with the absolute path of a directory")
    return FileStorage(FileObjects(Path("/" + rest.strip("/")).resolve()))
