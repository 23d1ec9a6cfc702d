"""Names of topics and subscriptions, and their names as metadata nodes.

A managed ledger is named ``tenant/namespace/persistent/<encoded local name>``. Old topics, from when namespaces had a
cluster, have the cluster between tenant and namespace. The encoding is Java's URLEncoder with UTF-8.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final
from urllib.parse import quote_plus, unquote_plus

from delayed_tracker.core.values.errors import InvalidInput

_DOMAIN: Final = "persistent"
_PREFIX: Final = "persistent://"
_NEIGHBOURS_MAX: Final = 200
_SIMILAR_MAX: Final = 5
_PARTITION: Final = re.compile(r"-partition-(0|[1-9][0-9]{0,8})$")


def encode_name(name: str, field: str = "name") -> str:
    """Encode a local topic name or a subscription as part of a metadata path.

    Args:
        name: any text.
        field: name of the field in the error.
    Raises:
        InvalidInput: the name has half of a surrogate pair, which UTF-8 cannot encode.
    """
    try:
        # Java keeps "*" and encodes "~"; Python does the opposite.
        return quote_plus(name, safe="*").replace("~", "%7E")
    except UnicodeEncodeError as error:
        raise InvalidInput(field, name, "give a name that can be written in UTF-8") from error


def decode_name(encoded: str) -> str:
    """Decode a name that :func:`encode_name` encoded."""
    return unquote_plus(encoded)


@dataclass(frozen=True, slots=True, order=True)
class TopicName:
    """Topic that is stored in ledgers. ``namespace`` contains one slash if the topic's name has a cluster."""

    tenant: str
    namespace: str
    local_name: str

    def __str__(self) -> str:
        return f"{_PREFIX}{self.tenant}/{self.namespace}/{self.local_name}"

    @property
    def managed_ledger(self) -> str:
        """Name of the managed ledger, which is also its path below /managed-ledgers."""
        return f"{self.tenant}/{self.namespace}/{_DOMAIN}/{encode_name(self.local_name)}"

    def is_beside(self, other: "TopicName") -> bool:
        """Return True if both topics are in one namespace."""
        return (self.tenant, self.namespace) == (other.tenant, other.namespace)

    @property
    def partition(self) -> int:
        """Partition number within a partitioned topic; -1 if the topic is not a partition."""
        found = _PARTITION.search(self.local_name)
        return int(found[1]) if found else -1

    @property
    def holds_messages(self) -> bool:
        """False for Pulsar's own ledgers of transaction state, whose entries are not messages."""
        if f"{self.tenant}/{self.namespace}" == "pulsar/system" and self.local_name.startswith("__transaction_log_"):
            return False
        return not self.local_name.endswith("__transaction_pending_ack")

    @classmethod
    def parse(cls, topic: str) -> "TopicName":
        """Parse a topic name that a user gives.

        Args:
            topic: ``persistent://tenant/namespace/name``, the same without the scheme, or a bare name in
                ``public/default``.
        Raises:
            InvalidInput: an empty part, half of a surrogate pair, or a topic that has no ledgers.
        """
        scheme, separator, path = topic.partition("://")
        if not separator:
            path = topic if "/" in topic else f"public/default/{topic}"
        elif scheme != _DOMAIN:
            raise InvalidInput("topic", topic, f"only topics that start with {_PREFIX} are stored in ledgers")
        parts = path.split("/", 3)
        if len(parts) < 3 or not all(parts):
            raise InvalidInput("topic", topic, f"give {_PREFIX}tenant/namespace/name")
        encode_name(topic, "topic")
        return cls(parts[0], "/".join(parts[1:-1]), parts[-1])

    @classmethod
    def of_managed_ledger(cls, name: str) -> "TopicName | None":
        """Return the topic whose managed ledger has this name; None if the name has another form."""
        parts = name.split("/")
        if len(parts) not in {4, 5} or parts[-2] != _DOMAIN or not all(parts):
            return None
        return cls(parts[0], "/".join(parts[1:-2]), decode_name(parts[-1]))


def similar_names(name: TopicName, known: Iterable[str]) -> list[str]:
    """Return the partitions of a topic that does not exist, then a few names like its own.

    Args:
        name: the topic.
        known: full names of topics.
    Cost: O(n log n); only the names next to it in alphabetical order are compared, which takes some 40 ms.
    """
    ordered, full = sorted(known), str(name)
    at = bisect_left(ordered, full)
    beside = ordered[max(at - _NEIGHBOURS_MAX, 0) : at + _NEIGHBOURS_MAX]
    near = [one for one in beside if one.startswith(f"{full}-partition-")]
    return near + [one for one in get_close_matches(full, beside, n=_SIMILAR_MAX) if one not in near]
