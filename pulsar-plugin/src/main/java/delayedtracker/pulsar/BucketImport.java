package delayedtracker.pulsar;

import static org.apache.bookkeeper.mledger.ManagedCursor.CURSOR_INTERNAL_PROPERTY_PREFIX;

import delayedtracker.pulsar.LocalIndex.Offer;
import delayedtracker.pulsar.LocalIndex.Place;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Takes over the buckets that Pulsar's own tracker has left for a subscription, one after the other: its indexes go to the
 * service; when they are durable there, the cursor's property is removed, and then the bucket's ledger.
 *
 * <p>A crash in between repeats a bucket, or leaves a ledger that no property names. It never leaves a property without ledger,
 * which would keep Pulsar's tracker from loading.
 */
final class BucketImport {
    /** Where Pulsar's tracker keeps its buckets. */
    interface Storage {
        /** Returns the number of segments of a bucket. */
        CompletableFuture<Integer> segmentCount(long bucketId);

        /** Returns the indexes of one segment, counted from 1. */
        CompletableFuture<List<Offer>> segment(long bucketId, int number);

        CompletableFuture<Void> delete(long bucketId);
    }

    private static final Logger log = LoggerFactory.getLogger(BucketImport.class);
    private static final String PREFIX = CURSOR_INTERNAL_PROPERTY_PREFIX + "delayed.bucket";
    private static final long LOOK_AGAIN_MS = 20;
    private static final int UNCONFIRMED_MAX = 10_000;

    private final String name;
    private final ManagedCursor cursor;
    private final Storage storage;
    private final ScheduledExecutorService threads;
    private volatile boolean stopped;

    BucketImport(String name, ManagedCursor cursor, Storage storage, ScheduledExecutorService threads) {
        this.name = name;
        this.cursor = cursor;
        this.storage = storage;
        this.threads = threads;
    }

    /** Returns whether there is anything to import. */
    boolean isNeeded() {
        return !buckets().isEmpty();
    }

    /** Imports what there is; it goes on in the background. */
    void start(LocalIndex index, TrackerSession session) {
        ArrayDeque<Map.Entry<String, String>> left = new ArrayDeque<>(buckets().entrySet());
        if (!left.isEmpty()) {
            log.info("[{}] Taking over {} buckets of Pulsar's tracker", name, left.size());
            next(left, index, session);
        }
    }

    void stop() {
        stopped = true;
    }

    /** Removes buckets that are not imported yet, because the subscription has been cleared. */
    CompletableFuture<Void> discard() {
        stopped = true;
        CompletableFuture<Void> all = CompletableFuture.completedFuture(null);
        for (Map.Entry<String, String> bucket : buckets().entrySet()) {
            all = all.thenCompose(done -> remove(bucket));
        }
        return all;
    }

    private Map<String, String> buckets() {
        Map<String, String> properties = cursor.getCursorProperties();
        Map<String, String> found = new TreeMap<>();
        if (properties != null) {
            properties.forEach((key, value) -> {
                if (key.startsWith(PREFIX)) {
                    found.put(key, value);
                }
            });
        }
        return found;
    }

    private void next(ArrayDeque<Map.Entry<String, String>> left, LocalIndex index, TrackerSession session) {
        Map.Entry<String, String> bucket = left.poll();
        if (stopped || bucket == null) {
            index.setImporting(false);
            return;
        }
        long bucketId = Long.parseLong(bucket.getValue());
        storage.segmentCount(bucketId)
                .thenCompose(count -> segments(bucketId, 1, count, index, session))
                .thenCompose(read -> confirmed(index))
                .thenCompose(durable -> stopped ? CompletableFuture.completedFuture(null) : remove(bucket))
                .whenComplete((done, error) -> {
                    if (error != null && !stopped) {
                        // The bucket stays, and with it all of its messages; the dispatcher reads them as well.
                        log.warn("[{}] Failed to take over the bucket {} of Pulsar's tracker; it is tried again when the topic"
                                + " is loaded", name, bucket, error);
                    }
                    next(left, index, session);
                });
    }

    private CompletableFuture<Void> segments(long bucketId, int number, int count, LocalIndex index, TrackerSession session) {
        if (number > count || stopped) {
            return CompletableFuture.completedFuture(null);
        }
        return storage.segment(bucketId, number)
                .thenCompose(offers -> {
                    for (Offer offer : offers) {
                        Place place = offer.place();
                        if (!cursor.isMessageDeleted(PositionFactory.create(place.ledgerId(), place.entryId()))) {
                            index.addImported(place.ledgerId(), place.entryId(), offer.deliverAtMs());
                        }
                    }
                    session.offered();
                    return until(() -> index.unconfirmedCount() < UNCONFIRMED_MAX);
                })
                .thenCompose(room -> segments(bucketId, number + 1, count, index, session));
    }

    /** Waits until everything that was offered is durable: offers are confirmed in their order. */
    private CompletableFuture<Void> confirmed(LocalIndex index) {
        Place last = index.lastOffered();
        return until(() -> index.isLocal() || last == null || !index.isUnconfirmed(last)).thenAccept(done -> {
            if (index.isLocal()) {
                throw new IllegalStateException("the service is away");
            }
        });
    }

    private CompletableFuture<Void> until(BooleanSupplier condition) {
        CompletableFuture<Void> done = new CompletableFuture<>();
        look(condition, done);
        return done;
    }

    private void look(BooleanSupplier condition, CompletableFuture<Void> done) {
        if (stopped || condition.getAsBoolean()) {
            done.complete(null);
        } else {
            threads.schedule(() -> look(condition, done), LOOK_AGAIN_MS, TimeUnit.MILLISECONDS);
        }
    }

    private CompletableFuture<Void> remove(Map.Entry<String, String> bucket) {
        return cursor.removeCursorProperty(bucket.getKey())
                .thenCompose(removed -> storage.delete(Long.parseLong(bucket.getValue())));
    }
}
