package delayedtracker.pulsar;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.pulsar.broker.delayed.bucket.BucketSnapshotStorage;
import org.apache.pulsar.broker.delayed.proto.SnapshotMetadata;
import org.apache.pulsar.broker.delayed.proto.SnapshotSegment;

/**
 * Hides the buckets of a subscription from Pulsar's own class, which looks for them when it is made, under the dispatcher's
 * lock: each seems to have one segment, due never. So it reads nothing, and deletes nothing.
 */
final class HiddenBuckets implements BucketSnapshotStorage {
    @Override
    public CompletableFuture<Long> createBucketSnapshot(SnapshotMetadata metadata, List<SnapshotSegment> segments,
            String bucketKey, String topicName, String cursorName) {
        return CompletableFuture.failedFuture(new UnsupportedOperationException());
    }

    @Override
    public CompletableFuture<SnapshotMetadata> getBucketSnapshotMetadata(long bucketId) {
        return CompletableFuture.completedFuture(NeverDue.metadata());
    }

    @Override
    public CompletableFuture<List<SnapshotSegment>> getBucketSnapshotSegment(long bucketId, long first, long last) {
        SnapshotSegment segment = new SnapshotSegment();
        segment.addIndexe().setTimestamp(Long.MAX_VALUE).setLedgerId(0).setEntryId(0);
        return CompletableFuture.completedFuture(List.of(segment));
    }

    @Override
    public CompletableFuture<Long> getBucketSnapshotLength(long bucketId) {
        return CompletableFuture.completedFuture(0L);
    }

    @Override
    public CompletableFuture<Void> deleteBucketSnapshot(long bucketId) {
        return CompletableFuture.failedFuture(new UnsupportedOperationException());
    }

    @Override
    public void start() {}

    @Override
    public void close() {}
}
