"""Compacts topics, and reads compacted topics."""

from delayed_tracker.ledger.compaction.compactor import (
    CompactedLedgerWriter,
    Compaction,
    CompactionPlan,
    CompactionSummary,
)
from delayed_tracker.ledger.compaction.service import EARLIEST, MessagePosition, TopicCompactionService

__all__ = [
    "EARLIEST",
    "CompactedLedgerWriter",
    "Compaction",
    "CompactionPlan",
    "CompactionSummary",
    "MessagePosition",
    "TopicCompactionService",
]
