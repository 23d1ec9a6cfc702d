"""Disks that lose power or fill up, and the files that remain on them."""

import errno
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.local.files.disk import Disk, OpenFile
from delayed_tracker.ledger.local.source import open_local_ledgers
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers

TOPIC = "persistent://lab/main/orders"


class QuickDisk(Disk):
    """Disk that does not sync the hardware. It is for tests that do not cut the power of the computer."""

    def sync(self, file: OpenFile) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass


class FailingDisk(QuickDisk):
    """Disk that refuses steps. ``refuses`` is called before each step that needs space or hardware."""

    def __init__(self, refuses: Callable[[str, Path], bool] = lambda _step, _path: False) -> None:
        self.refuses = refuses
        self.steps = 0

    def create(self, path: Path) -> OpenFile:
        self._ask("create", path)
        return super().create(path)

    def write(self, file: OpenFile, content: bytes | memoryview, offset: int) -> None:
        if self._refused("write", file.path):
            if file.path.name != "confirmed":  # That file is overwritten in place, within one sector.
                # A full disk accepts the part that fits.
                super().write(file, memoryview(content)[: len(content) // 2], offset)
            raise OSError(errno.ENOSPC, "No space left on device", str(file.path))
        super().write(file, content, offset)

    def sync(self, file: OpenFile) -> None:
        self._ask("sync", file.path)

    def truncate(self, file: OpenFile, size: int) -> None:
        self._ask("truncate", file.path)
        super().truncate(file, size)

    def rename(self, source: Path, target: Path) -> None:
        self._ask("rename", target)
        super().rename(source, target)

    def sync_directory(self, path: Path) -> None:
        self._ask("sync_directory", path)

    def _ask(self, step: str, path: Path) -> None:
        if self._refused(step, path):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    def _refused(self, step: str, path: Path) -> bool:
        self.steps += 1
        return self.refuses(step, path)


@dataclass(frozen=True)
class Step:
    kind: str
    path: Path
    other: Path | None = None
    offset: int = 0
    content: bytes = b""


class RecordingDisk(QuickDisk):
    """Disk that records every step, so that a test can cut the power behind any of them."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def create(self, path: Path) -> OpenFile:
        self.steps.append(Step("create", path))
        return super().create(path)

    def write(self, file: OpenFile, content: bytes | memoryview, offset: int) -> None:
        self.steps.append(Step("write", file.path, offset=offset, content=bytes(content)))
        super().write(file, content, offset)

    def sync(self, file: OpenFile) -> None:
        self.steps.append(Step("sync", file.path))

    def truncate(self, file: OpenFile, size: int) -> None:
        self.steps.append(Step("truncate", file.path, offset=size))
        super().truncate(file, size)

    def rename(self, source: Path, target: Path) -> None:
        self.steps.append(Step("rename", source, target))
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        if path.exists():
            self.steps.append(Step("remove", path))
        super().remove(path)

    def make_directory(self, path: Path) -> None:
        self.steps.append(Step("make_directory", path))
        super().make_directory(path)

    def sync_directory(self, path: Path) -> None:
        self.steps.append(Step("sync_directory", path))


@dataclass
class _Inode:
    """A file, or (without content) a directory."""

    content: bytearray | None
    pending: list[tuple[str, int, bytes]] = field(default_factory=list)


@dataclass(frozen=True)
class _NameChange:
    path: Path
    inode: _Inode | None
    gone: Path | None = None
    """Old name of a renamed file or directory."""


class PowerCut:
    """Files after a power cut: everything that was synced, and a random part of the rest."""

    def __init__(self, root: Path, *, kept: float, seed: int) -> None:
        """Set the root and the probability ``kept`` that an unsynced change is on the disk; 1.0 is a killed process."""
        self._root = root
        self._kept = kept
        self._chance = random.Random(seed)
        self._names: dict[Path, _Inode] = {}
        self._durable: dict[Path, _Inode] = {}
        self._pending: list[_NameChange] = []

    def after(self, steps: list[Step], image: Path) -> None:
        """Write the files that remain after these steps below ``image``."""
        for step in steps:
            self._take(step)
        self._apply(lambda _change: self._survives())
        for path, inode in sorted(self._durable.items()):
            place = image / path.relative_to(self._root)
            if not place.parent.is_dir():
                continue  # The directory above is lost.
            if inode.content is None:
                place.mkdir()
            else:
                place.write_bytes(self._left_of(inode))

    def _take(self, step: Step) -> None:
        match step.kind:
            case "make_directory":
                self._names[step.path] = _Inode(None)
                self._pending.append(_NameChange(step.path, self._names[step.path]))
            case "create":
                if step.path in self._names:
                    self._names[step.path].pending.append(("truncate", 0, b""))
                else:
                    self._names[step.path] = _Inode(bytearray())
                    self._pending.append(_NameChange(step.path, self._names[step.path]))
            case "write" | "truncate":
                self._names[step.path].pending.append((step.kind, step.offset, step.content))
            case "sync":
                inode = self._names[step.path]
                assert inode.content is not None
                for change in inode.pending:
                    _change(inode.content, change)
                inode.pending.clear()
            case "rename":
                assert step.other is not None
                self._names[step.other] = self._names.pop(step.path)
                self._pending.append(_NameChange(step.other, self._names[step.other], gone=step.path))
            case "remove":
                del self._names[step.path]
                self._pending.append(_NameChange(step.path, None))
            case "sync_directory":
                self._apply(lambda change: change.path.parent == step.path)

    def _apply(self, which: Callable[[_NameChange], bool]) -> None:
        rest = []
        for change in self._pending:
            if not which(change):
                rest.append(change)
                continue
            if change.gone is not None:
                self._durable.pop(change.gone, None)
            if change.inode is None:
                self._durable.pop(change.path, None)
            else:
                self._durable[change.path] = change.inode
        self._pending = rest

    def _left_of(self, inode: _Inode) -> bytes:
        assert inode.content is not None
        content = bytearray(inode.content)
        for kind, offset, written in inode.pending:
            if self._survives():
                part = written
            elif self._kept and kind == "write":
                part = written[: self._chance.randrange(len(written) + 1)]
            else:
                continue
            _change(content, (kind, offset, part))
        return bytes(content)

    def _survives(self) -> bool:
        return self._chance.random() < self._kept


def _change(content: bytearray, change: tuple[str, int, bytes]) -> None:
    kind, offset, written = change
    if kind == "truncate":
        del content[offset:]
        return
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(written)] = written


def stored(
    directory: Path, topic: str = TOPIC, *, open_ledgers: OpenLedgers = OpenLedgers.LIVE
) -> list[tuple[Position, bytes]]:
    """Return all entries that a reader finds. Fails if an entry cannot be read."""
    with open_local_ledgers(directory, open_ledgers=open_ledgers) as source:
        found = []
        for piece in source.topic_log(topic).scan():
            assert piece.bad_entries == ()
            entries = piece.entries
            found += [(position, entries.payload(row)) for row, position in enumerate(entries.positions)]
        return found
