"""Reads the acknowledgements of a cursor: from its node, or from the last stored entry of its ledger.

The ledger is not recovered, so that a broker which writes it is not fenced. What it acknowledged last may be missing: the
positions are then in a bucket, and the broker skips them.
"""

from delayed_tracker.bookkeeper.metadata.errors import LedgerNotFound
from delayed_tracker.cluster.address import Cluster
from delayed_tracker.cluster.cursor_node import CursorNode
from delayed_tracker.cluster.errors import ClusterNodeInvalid
from delayed_tracker.ledger.errors import MetadataInvalid
from delayed_tracker.ledger.metadata.cursor import NO_LEDGER, CursorState, cursor_state
from delayed_tracker.ledger.metadata.managed_ledger import ManagedLedger, parse_cursor_entry
from delayed_tracker.pulsar.v1.managed_ledger_pb2 import PositionInfo


async def read_cursor_state(
    cluster: Cluster, node: CursorNode, managed_ledger: ManagedLedger, *, name: str
) -> CursorState:
    """Return the acknowledgement state of a cursor.

    Args:
        cluster: is connected.
        node: of the cursor.
        managed_ledger: of its topic.
        name: of the cursor, for messages.
    Raises:
        ClusterNodeInvalid: the state is damaged.
        EntryMissing, DigestMismatch, LedgerUnreadable: the bookies of the cursor's ledger do not give its last entry.
        ZooKeeperUnavailable: ZooKeeper does not answer.
    """
    ends = {one.ledger_id: one.entry_count - 1 for one in managed_ledger.ledgers if one.entry_count is not None}
    info = node.info
    try:
        entry = None if info.cursors_ledger_id == NO_LEDGER else await _last_state(cluster, info.cursors_ledger_id)
        return cursor_state(info, entry, ends)
    except MetadataInvalid as error:
        raise ClusterNodeInvalid(f"the state of {name} does not decode: {error.message}") from error


async def _last_state(cluster: Cluster, ledger_id: int) -> PositionInfo | None:
    """Return the last entry of a cursor's ledger; None if it is empty or lost."""
    try:
        # Brokers give cursor ledgers managedLedgerPassword, which BookKeeper keeps beside them.
        password = (await cluster.client.metadata(ledger_id)).password
        reader = await cluster.client.open(ledger_id, password=password)
        last = await reader.read_last_stored()
    except LedgerNotFound:
        return None
    return None if last is None else parse_cursor_entry(bytes(last.payload))
