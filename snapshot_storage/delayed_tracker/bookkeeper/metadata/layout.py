"""Places of ledgers in ZooKeeper's tree, which the node ``LAYOUT`` of a cluster names.

The value of ``LAYOUT`` is the format's version, a new line, and a Java class with its version. Format 1 has a short name
in the place of the class (``org.apache.bookkeeper.meta.LedgerLayout``).
"""

import re
from enum import Enum
from itertools import pairwise
from typing import Final

from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid

LAYOUT_NODE: Final = "LAYOUT"
SHORT_IDS_END: Final = 2**31 - 1
"""First id that needs the long form; Java's int ends here."""
LONG_IDS_END: Final = 2**63
_SHORT: Final = (2, 4, 4)
_LONG: Final = (3, 4, 4, 4, 4)
_OLD_NAMES: Final = {"hierarchical": "Hierarchical", "flat": "Flat"}
_VALUE: Final = re.compile(r"([12])\n(?:org\.apache\.bookkeeper\.meta\.)?(\w+?)(?:LedgerManagerFactory)?:1\s*")


class Layout(Enum):
    """One way to place ledgers; the values are the classes' names without ``LedgerManagerFactory``."""

    HIERARCHICAL = "Hierarchical"
    """Two levels for short ids, four for long ones. BookKeeper's default, and Pulsar's."""
    LONG_HIERARCHICAL = "LongHierarchical"
    """Four levels for all ids."""
    LEGACY_HIERARCHICAL = "LegacyHierarchical"
    """Two levels; no long ids."""
    FLAT = "Flat"
    """All ledgers in one node; no long ids."""

    @classmethod
    def parse(cls, value: bytes) -> "Layout":
        """Parse the value of a cluster's ``LAYOUT`` node.

        Raises:
            LedgerMetadataInvalid: not such a value, or a class or version that this program does not know.
        """
        matched = _VALUE.fullmatch(value.decode("utf-8", "replace"))
        name = None
        if matched is not None:
            name = matched[2] if matched[1] == "2" else _OLD_NAMES.get(matched[2])
        if name not in {layout.value for layout in cls}:
            raise LedgerMetadataInvalid(
                f"{LAYOUT_NODE}: {value[:120]!r} is no ledger layout that this program knows; give the root of a cluster "
                f"whose layout is one of {', '.join(layout.value for layout in cls)}, version 1"
            )
        return cls(name)

    @property
    def takes_long_ids(self) -> bool:
        """True if ids of 2**31 - 1 and above have a place."""
        return self in {Layout.HIERARCHICAL, Layout.LONG_HIERARCHICAL}

    def path_of(self, ledger_id: int) -> str:
        """Return the path of a ledger's node below the root of the ledgers, without a slash in front.

        Raises:
            LedgerMetadataInvalid: the layout has no place for the id.
        """
        if not 0 <= ledger_id < (LONG_IDS_END if self.takes_long_ids else SHORT_IDS_END):
            raise LedgerMetadataInvalid(f"ledger: {ledger_id} has no place in the layout {self.value}; give another id")
        if self is Layout.FLAT:
            return f"L{ledger_id:010d}"
        short = self is not Layout.LONG_HIERARCHICAL and ledger_id < SHORT_IDS_END
        sizes = _SHORT if short else _LONG
        digits = f"{ledger_id:0{sum(sizes)}d}"
        ends = [sum(sizes[:count]) for count in range(len(sizes) + 1)]
        *parents, last = (digits[start:end] for start, end in pairwise(ends))
        return "/".join([*parents, f"L{last}"])

    def id_of(self, path: str) -> int | None:
        """Return the id of the ledger at a path below the root; None if the path is no ledger's of this layout."""
        digits = re.sub(r"/|L(?=\d{4}$)", "", path) if self is not Layout.FLAT else path.removeprefix("L")
        if not re.fullmatch(r"[0-9]{10}|[0-9]{19}", digits):
            return None
        ledger_id = int(digits)
        known = ledger_id < (LONG_IDS_END if self.takes_long_ids else SHORT_IDS_END)
        return ledger_id if known and self.path_of(ledger_id) == path else None
