"""Names of topics and subscriptions, and the names their metadata nodes have.

A managed ledger is called ``tenant/namespace/persistent/<encoded local name>``; topics of the time before namespaces
lost their cluster have the cluster between tenant and namespace. Encoding is Java's URLEncoder with UTF-8.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_plus, unquote_plus

from delayed_tracker.core.values.errors import InvalidInput

_DOMAIN: Final = "persistent"
_PREFIX: Final = "persistent://"
_PARTITION: Final = re.compile(r"-partition-(0|[1-9][0-9]{0,8})$")


def encode_name(name: str, field: str = "name") -> str:
    """A local topic name or a subscription as part of a metadata path.

    Args:
        name: any text.
        field: which field it is, for the error.
    Raises:
        InvalidInput: the name has half of a surrogate pair, which no UTF-8 can hold.
    """
    try:
        # Java leaves "*" alone and encodes "~"; Python does the opposite.
        return quote_plus(name, safe="*").replace("~", "%7E")
    except UnicodeEncodeError as error:
        raise InvalidInput(field, name, "give a name that can be written in UTF-8") from error


def decode_name(encoded: str) -> str:
    """The name that :func:`encode_name` encoded."""
    return unquote_plus(encoded)


@dataclass(frozen=True, slots=True, order=True)
class TopicName:
    """A topic that is stored in ledgers. ``namespace`` holds one slash for topics with a cluster in their name."""

    tenant: str
    namespace: str
    local_name: str

    def __str__(self) -> str:
        return f"{_PREFIX}{self.tenant}/{self.namespace}/{self.local_name}"

    @property
    def managed_ledger(self) -> str:
        """The managed ledger's name, also its path below /managed-ledgers."""
        return f"{self.tenant}/{self.namespace}/{_DOMAIN}/{encode_name(self.local_name)}"

    @property
    def namespace_prefix(self) -> str:
        """What full names of all topics in its namespace begin with."""
        return f"{_PREFIX}{self.tenant}/{self.namespace}/"

    @property
    def partition(self) -> int:
        """Which partition of a partitioned topic it is; -1 when it is none."""
        found = _PARTITION.search(self.local_name)
        return int(found[1]) if found else -1

    @property
    def holds_messages(self) -> bool:
        """False for Pulsar's own ledgers of transaction state, whose entries are no messages."""
        if f"{self.tenant}/{self.namespace}" == "pulsar/system" and self.local_name.startswith("__transaction_log_"):
            return False
        return not self.local_name.endswith("__transaction_pending_ack")

    @classmethod
    def parse(cls, topic: str) -> "TopicName":
        """The topic that a user names.

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
        """The topic whose managed ledger has this name; None when it is none's."""
        parts = name.split("/")
        if len(parts) not in {4, 5} or parts[-2] != _DOMAIN or not all(parts):
            return None
        return cls(parts[0], "/".join(parts[1:-2]), decode_name(parts[-1]))
