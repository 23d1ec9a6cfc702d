"""Names of the nodes by which a tracker's ledgers are found, and what a ledger of ours carries in its custom metadata.

A ledger is registered below its tracker in the step that creates it, as ``ID.EPOCH.KIND.INSTANCE.o``, and becomes
``….c`` in the step that closes it: there is no ledger without a registration, and none that was not finished counts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from delayed_tracker.storage.shared.names import tracker_path

TRACKERS: Final = "t"
"""Folder of all registrations, below the root."""
SNAPSHOT, BLOB = "s", "b"

ROOT_KEY: Final = "delayed-tracker/root"
REGISTRATION_KEY: Final = "delayed-tracker/registration"

_NAME: Final = re.compile(r"([0-9]{1,19})\.([0-9]{1,19})\.([sb])\.([0-9a-f]{16})\.([oc])")


def folder_of(topic: str, cursor: str) -> str:
    """Return the path of a tracker's registrations below the root. Raises InvalidInput for a text UTF-8 does not know."""
    return f"{TRACKERS}/{tracker_path(topic, cursor)}"


@dataclass(frozen=True, slots=True)
class Registration:
    """One ledger of ours."""

    folder: str
    """Path of the tracker's node below the root."""
    ledger_id: int
    epoch: int
    kind: str
    instance: int
    """Number of the process that created it, from 0 to 2^64 - 1."""
    closed: bool = False
    """True in what was listed as closed."""

    @classmethod
    def parse(cls, folder: str, name: str) -> Self | None:
        """Return the registration of a node's name; None if it is none of ours."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        return cls(folder, int(found[1]), int(found[2]), found[3], int(found[4], 16), found[5] == "c")

    @classmethod
    def of_ledger(cls, root: str, ledger_id: int, custom: Mapping[str, bytes]) -> Self | None:
        """Return the registration of a ledger by its custom metadata; None if it is not a ledger of this root."""
        if custom.get(ROOT_KEY) != root.encode():
            return None
        folder, slash, rest = custom.get(REGISTRATION_KEY, b"").decode("utf-8", "replace").rpartition("/")
        return cls.parse(folder, f"{ledger_id}.{rest}.o") if slash else None

    def custom(self, root: str) -> dict[str, bytes]:
        """Return the custom metadata by which the ledger is known as one of this root."""
        return {ROOT_KEY: root.encode(), REGISTRATION_KEY: f"{self.folder}/{self._rest}".encode()}

    def open_node(self, root: str) -> str:
        """Return the node of the ledger until it is closed."""
        return f"{root}/{self.folder}/{self.ledger_id}.{self._rest}.o"

    def closed_node(self, root: str) -> str:
        """Return the node of the ledger from then on."""
        return f"{root}/{self.folder}/{self.ledger_id}.{self._rest}.c"

    @property
    def _rest(self) -> str:
        return f"{self.epoch}.{self.kind}.{self.instance:016x}"
