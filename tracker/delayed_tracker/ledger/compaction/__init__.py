"""Compacts topics, and reads compacted topics.

Takes a topic's messages, gives a compacted ledger, and answers by key, time and last message (PIP-429).
Open ``compactor.py`` first.
"""

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
