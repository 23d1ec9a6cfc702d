"""Errors of inspecting and changing a live cluster, one class for each reaction of the caller."""

import shlex

from delayed_tracker.core.values.errors import DelayedTrackerError


class ClusterError(DelayedTrackerError):
    """Base class of all errors of inspecting and changing a live cluster."""

    reason = "PULSAR_CLUSTER_ERROR"


class TopicLoaded(ClusterError):
    """A broker has the topic loaded, or is loading it; nothing was changed. Unload it, and run the command again."""

    reason = "PULSAR_TOPIC_LOADED"

    def __init__(self, topic: str, broker: str) -> None:
        super().__init__(
            f"{topic} is loaded by {broker}; disconnect its clients, run `pulsar-admin topics unload {shlex.quote(topic)}`, and "
            "run the command again",
            metadata={"topic": topic, "broker": broker},
        )
        self.topic = topic
        self.broker = broker


class TopicTerminated(ClusterError):
    """The topic is terminated: a broker loads it without writing its node first, so that a change could race with it."""

    reason = "PULSAR_TOPIC_TERMINATED"

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"{topic} is terminated, and its cursors cannot be changed safely; leave it out, a broker replays its messages",
            metadata={"topic": topic},
        )
        self.topic = topic


class BrokerUnavailable(ClusterError):
    """A broker does not say which topics it has loaded; nothing was changed. Start it, or correct its address or the token."""

    reason = "PULSAR_BROKER_UNAVAILABLE"

    def __init__(self, broker: str, problem: str) -> None:
        super().__init__(f"broker {broker}: {problem}", metadata={"broker": broker})
        self.broker = broker


class CursorChanged(ClusterError):
    """Another process keeps changing the cursor, or has changed its buckets; nothing was changed. Look at it again."""

    reason = "PULSAR_CURSOR_CHANGED"


class ClusterNodeInvalid(ClusterError):
    """A node of the metadata store does not decode. Nothing can be done with it here; restore it from a copy."""

    reason = "PULSAR_NODE_INVALID"


class BackupInvalid(ClusterError):
    """The backup file is damaged, cut short, of another cluster or of a newer version. Give another file."""

    reason = "PULSAR_BACKUP_INVALID"


class BackupUnusable(ClusterError):
    """The backup file cannot be written; what it does not have was not changed. Give a place with room for it."""

    reason = "PULSAR_BACKUP_UNUSABLE"


class TooManyBucketLedgers(ClusterError):
    """The cluster has more bucket ledgers than one command keeps in memory. Look at one topic at a time."""

    reason = "PULSAR_TOO_MANY_BUCKETS"


class TooManyTrackers(ClusterError):
    """More trackers have no cursor than one command keeps in memory; nothing was deleted. Look at fewer topics at a time."""

    reason = "PULSAR_TOO_MANY_TRACKERS"


class GcStateInvalid(ClusterError):
    """The file of ``--state`` is damaged, of a newer version, or no such file; nothing was deleted. Give another, or remove it."""

    reason = "PULSAR_GC_STATE_INVALID"


class GcStateUnusable(ClusterError):
    """The file of ``--state`` cannot be read or written. Give a place that this user may write."""

    reason = "PULSAR_GC_STATE_UNUSABLE"
