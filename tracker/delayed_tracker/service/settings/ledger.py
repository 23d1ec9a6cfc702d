"""Settings for reading ledgers: their source, and the rules and limits of the answers about them."""

from dataclasses import dataclass

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.settings.keys import Group, Section, setting


@dataclass(frozen=True, kw_only=True)
class LedgerSettings(Section):
    """Settings for reading ledgers."""

    ledger_source_url: str = setting(
        "",
        "ledgerSourceUrl",
        Group.LEDGER,
        "Ledgers that LedgerService and getMessageIdByIndex read: bookkeeper+file:DIRECTORY?metadata=DUMP, "
        "bookkeeper+zk:HOST:PORT (a running cluster), ledger:DIRECTORY, offload+mapfile:DIRECTORY or offload+blob:URL; of several, divided by spaces, each ledger is "
        "read from the first that has all of it. Empty: they refuse every call.",
    )
    message_id_by_index_mode: str = setting(
        "proposal",
        "messageIdByIndexMode",
        Group.LEDGER,
        "Rules of getMessageIdByIndex if the call gives no mode: those of PIP-415 (a system message stands for "
        "the next user message), or those of Pulsar 4.2 where it differs (the system message itself; EARLIEST for the "
        "first batch but its last message; refused if the topic's first entry has no index, or if "
        "brokerEntryMetadataInterceptors is empty).",
        choices={"proposal": "proposal", "pulsar-compatible": "pulsar-compatible"},
    )
    ledger_read_entries_max: int = setting(
        1_000,
        "ledgerReadEntriesMax",
        Group.LEDGER,
        "Entries that one answer of ReadEntries holds at most; it ends at half of grpcMessageBytesMax in any case.",
        unit="entries",
        minimum=1,
        maximum=1_000_000,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ledger_source_url and ":" not in self.ledger_source_url:
            remedy = "give SCHEME:PLACE, such as bookkeeper+file:/disk?metadata=/disk/dump.jsonl"
            raise InvalidInput("ledgerSourceUrl", self.ledger_source_url, remedy)
