package delayedtracker.pulsar;

import org.apache.pulsar.broker.delayed.proto.SnapshotMetadata;

/** Metadata of one segment that is never due, by the classes of this release line. */
final class NeverDue {
    private NeverDue() {}

    static SnapshotMetadata metadata() {
        SnapshotMetadata metadata = new SnapshotMetadata();
        metadata.addMetadata().setMinScheduleTimestamp(Long.MAX_VALUE).setMaxScheduleTimestamp(Long.MAX_VALUE);
        return metadata;
    }
}
