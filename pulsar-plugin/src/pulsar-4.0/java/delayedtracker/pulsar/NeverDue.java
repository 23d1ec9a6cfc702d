package delayedtracker.pulsar;

import org.apache.pulsar.broker.delayed.proto.SnapshotMetadata;
import org.apache.pulsar.broker.delayed.proto.SnapshotSegmentMetadata;

/** Metadata of one segment that is never due, by the classes of this release line. */
final class NeverDue {
    private NeverDue() {}

    static SnapshotMetadata metadata() {
        return SnapshotMetadata.newBuilder().addMetadataList(SnapshotSegmentMetadata.newBuilder()
                .setMinScheduleTimestamp(Long.MAX_VALUE).setMaxScheduleTimestamp(Long.MAX_VALUE)).build();
    }
}
