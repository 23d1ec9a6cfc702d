package delayedtracker.pulsar;

import delayedtracker.pulsar.LocalIndex.Offer;
import delayedtracker.pulsar.LocalIndex.Place;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.delayed.bucket.BookkeeperBucketSnapshotStorage;
import org.apache.pulsar.broker.delayed.bucket.BucketSnapshotStorage;
import org.apache.pulsar.broker.delayed.proto.DelayedIndex;
import org.apache.pulsar.broker.delayed.proto.SnapshotSegment;

/** Reads the buckets of Pulsar's own tracker where the broker keeps them. */
final class PulsarBuckets implements BucketImport.Storage, AutoCloseable {
    private final BucketSnapshotStorage storage;

    PulsarBuckets(PulsarService pulsar) throws Exception {
        storage = new BookkeeperBucketSnapshotStorage(pulsar);
        storage.start();
    }

    @Override
    public CompletableFuture<Integer> segmentCount(long bucketId) {
        return storage.getBucketSnapshotMetadata(bucketId).thenApply(metadata -> metadata.getMetadataListCount());
    }

    @Override
    public CompletableFuture<List<Offer>> segment(long bucketId, int number) {
        return storage.getBucketSnapshotSegment(bucketId, number, number).thenApply(segments -> {
            List<Offer> offers = new ArrayList<>();
            for (SnapshotSegment segment : segments) {
                for (DelayedIndex each : segment.getIndexesList()) {
                    offers.add(new Offer(new Place(each.getLedgerId(), each.getEntryId()), each.getTimestamp()));
                }
            }
            return offers;
        });
    }

    @Override
    public CompletableFuture<Void> delete(long bucketId) {
        return storage.deleteBucketSnapshot(bucketId);
    }

    @Override
    public void close() throws Exception {
        storage.close();
    }
}
