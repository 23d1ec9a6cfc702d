"""Files of a directory as a power failure would leave them, rebuilt from a recording of what a process did to them.

A file has what it had at its last fsync, and a directory the names that it had at its own. SQLite's shared memory is
left out: it is rebuilt from the log. A call counts from its end on, and an fsync covers what had ended when it began.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

_LINE = re.compile(r"(\d+) +(\d+\.\d+) (.*)")
_UNFINISHED = " <unfinished ...>"
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+)(?:<[^>]*>)?(?: \(?.*)? <(\d+\.\d+)>", re.DOTALL)
_FILE = re.compile(r"\d+<([^>]*)>")
_TEXT = re.compile(r'"([^"]*)"')
_SYNCS = {"fsync", "fdatasync"}


class Call(NamedTuple):
    """One call that has ended, or an fsync that begins."""

    at: float
    """Seconds since 1970 at its end."""
    name: str
    arguments: str
    result: int


class Write(NamedTuple):
    """Bytes at an offset; without bytes, the file is cut or grown to the offset."""

    offset: int
    content: bytes | None

    def apply(self, file: bytearray) -> None:
        grown = self.offset - len(file)
        file.extend(b"\0" * max(0, grown))
        if self.content is None:
            del file[self.offset :]
        else:
            file[self.offset : self.offset + len(self.content)] = self.content


@dataclass(slots=True, eq=False)
class RecordedFile:
    """One file, under whatever name."""

    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[Write] = field(default_factory=list)

    def sync(self, count: int) -> None:
        """Make the first unsynced writes durable."""
        for write in self.unsynced[:count]:
            write.apply(self.durable)
        del self.unsynced[:count]

    def survivor(self, rng: random.Random | None) -> bytes:
        """Return what a failure leaves: what was synced, and with a source of chance, a prefix of what came after."""
        file = bytearray(self.durable)
        if rng is not None and self.unsynced:
            whole = rng.randrange(len(self.unsynced) + 1)
            for write in self.unsynced[:whole]:
                write.apply(file)
            if whole < len(self.unsynced) and (content := self.unsynced[whole].content):
                Write(self.unsynced[whole].offset, content[: rng.randrange(len(content))]).apply(file)
        return bytes(file)


class RecordedDirectory:
    """A directory without subdirectories that was empty when the recording began."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._names: dict[str, RecordedFile] = {}
        self._durable_names: dict[str, RecordedFile] = {}
        self._syncing: dict[str, tuple[dict[str, RecordedFile], RecordedFile | None, int]] = {}
        self.sync_count = 0

    def sync_begins(self, thread: str, arguments: str) -> None:
        """Note what an fsync covers."""
        if (name := self._name(_FILE, arguments)) is not None:
            file = self._names.get(name)
            self._syncing[thread] = (dict(self._names), file, len(file.unsynced) if file else 0)
            assert (file is None) == (name == ""), f"{name!r} was not seen created"

    def apply(self, thread: str, call: Call) -> None:
        """Apply a call that has ended."""
        if call.name in _SYNCS:
            covered = self._syncing.pop(thread, None)
            if covered is not None and call.result == 0:
                names, file, count = covered
                self.sync_count += 1
                if file is None:
                    self._durable_names = names
                else:
                    file.sync(count)
        elif call.result >= 0:
            self._change(call)

    def _change(self, call: Call) -> None:
        if call.name == "openat":
            name = self._name(_TEXT, call.arguments)
            if name and "O_CREAT" in call.arguments:
                self._names.setdefault(name, RecordedFile())
            assert not name or "O_TRUNC" not in call.arguments
        elif call.name == "pwrite64":
            if name := self._name(_FILE, call.arguments):
                content = bytes.fromhex(_text(call.arguments).replace("\\x", ""))[: call.result]
                self._names[name].unsynced.append(Write(int(call.arguments.rsplit(", ", 1)[1]), content))
        elif call.name == "ftruncate":
            if name := self._name(_FILE, call.arguments):
                self._names[name].unsynced.append(Write(int(call.arguments.rsplit(", ", 1)[1]), None))
        elif call.name == "unlink":
            if name := self._name(_TEXT, call.arguments):
                del self._names[name]
        else:
            touched = self._name(_FILE, call.arguments) or self._name(_TEXT, call.arguments)
            assert not touched, f"{call.name} of {touched}: the rebuild does not know it"

    def _name(self, pattern: re.Pattern[str], arguments: str) -> str | None:
        """Return the name of the call's file; empty for the directory itself, None for any other file."""
        found = pattern.search(arguments)
        if found is None or len(found[1]) > 4 * 4096:
            return None
        path = _decoded(found[1])
        if path == self._path:
            return ""
        is_inside = path.startswith(self._path + "/") and not path.endswith(("-shm", "(deleted)"))
        return path[len(self._path) + 1 :] if is_inside else None

    def write(self, directory: Path, rng: random.Random | None) -> None:
        """Write the files that a failure leaves now.

        Args:
            directory: is created.
            rng: decides what survives of that which was not synced; None keeps nothing of it.
        """
        directory.mkdir()
        for name in sorted(self._durable_names.keys() | self._names.keys()):
            durable, present = self._durable_names.get(name), self._names.get(name)
            file = present if rng is not None and rng.random() < 0.5 else durable
            if file is not None:
                (directory / name).write_bytes(file.survivor(rng))


@cache
def _decoded(text: str) -> str:
    hexadecimal = text.replace("\\x", "")
    return bytes.fromhex(hexadecimal).decode(errors="replace") if text.startswith("\\x") else text


def _text(arguments: str) -> str:
    found = _TEXT.search(arguments)
    assert found is not None
    return found[1]


def rebuilt(recording: Path, directory: Path, moments: list[float]) -> Iterator[tuple[float, RecordedDirectory]]:
    """Yield the directory at each moment, ascending. It changes with the next one."""
    state = RecordedDirectory(directory)
    begun: dict[str, tuple[float, str]] = {}
    waiting = sorted(moments)
    with recording.open(encoding="ascii") as file:
        for line in file:
            matched = _LINE.match(line.rstrip("\n"))
            if matched is None or "+++" in matched[3][:4]:
                continue
            thread, at, said = matched[1], float(matched[2]), matched[3]
            if resumed := _RESUMED.match(said):
                at, first = begun.pop(thread)
                said = first + said[resumed.end() :]
            else:
                if said.startswith(("fsync", "fdatasync")):
                    state.sync_begins(thread, said)
                if said.endswith(_UNFINISHED):
                    begun[thread] = (at, said.removesuffix(_UNFINISHED))
                    continue
            called = _CALL.fullmatch(said)
            if called is None:
                continue  # the kill ended it
            ended = at + float(called[4])
            while waiting and ended > waiting[0]:
                yield waiting.pop(0), state
            state.apply(thread, Call(ended, called[1], called[2], int(called[3])))
    for moment in waiting:
        yield moment, state
