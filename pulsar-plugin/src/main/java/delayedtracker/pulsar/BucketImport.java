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

    /** Returns the properties of buckets that Pulsar's own tracker could not read, nor this one. */
    static Map<String, String> malformed(ManagedCursor cursor) {
        Map<String, String> found = buckets(cursor);
        found.entrySet().removeIf(BucketImport::isWellFormed);
        return found;
    }

    /** Returns whether there is anything to import. */
    boolean isNeeded() {
        return !buckets(cursor).isEmpty();
    }

    /**
     * Imports what there is; it goes on in the background.
     *
     * @param offered is run when there are new offers in the index
     */
    void start(LocalIndex index, Runnable offered) {
        Map<String, String> malformed = malformed(cursor);
        malformed.forEach((key, value) -> log.warn("[{}] The bucket of the cursor's property {}={} is not taken over: the"
                + " property is malformed. The dispatcher reads its messages from the topic."
                + " \"delayed-tracker pulsar repair\" removes it",
                name, key, value));
        Map<String, String> buckets = buckets(cursor);
        buckets.keySet().removeAll(malformed.keySet());
        if (!buckets.isEmpty()) {
            log.info("[{}] Taking over {} buckets of Pulsar's tracker", name, buckets.size());
        }
        next(new ArrayDeque<>(buckets.entrySet()), index, offered);
    }

    void stop() {
        stopped = true;
    }

    /** Removes buckets that are not imported yet, because the subscription has been cleared. */
    CompletableFuture<Void> discard() {
        stopped = true;
        CompletableFuture<Void> all = CompletableFuture.completedFuture(null);
        for (Map.Entry<String, String> bucket : buckets(cursor).entrySet()) {
            all = all.thenCompose(done -> remove(bucket));
        }
        return all;
    }

    private static Map<String, String> buckets(ManagedCursor cursor) {
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

    /** Returns whether the key names the first and the last ledger of a bucket's messages, and the value a ledger. */
    private static boolean isWellFormed(Map.Entry<String, String> bucket) {
        String[] parts = bucket.getKey().split("_");
        try {
            return parts.length == 3 && Long.parseLong(parts[1]) <= Long.parseLong(parts[2]) && bucketId(bucket) >= 0;
        } catch (NumberFormatException malformed) {
            return false;
        }
    }

    private static long bucketId(Map.Entry<String, String> bucket) {
        return Long.parseLong(bucket.getValue());
    }

    /** Imports the next bucket, and then the others, whatever becomes of it. */
    private void next(ArrayDeque<Map.Entry<String, String>> left, LocalIndex index, Runnable offered) {
        Map.Entry<String, String> bucket = left.poll();
        if (stopped || bucket == null) {
            index.setImporting(false);
            return;
        }
        // What is thrown, and not only what fails later, must not keep the others from being imported.
        CompletableFuture.completedFuture(bucket)
                .thenCompose(each -> storage.segmentCount(bucketId(each)))
                .thenCompose(count -> segments(bucketId(bucket), 1, count, index, offered))
                .thenCompose(read -> confirmed(index))
                .thenCompose(durable -> stopped ? CompletableFuture.completedFuture(null) : remove(bucket))
                .whenComplete((done, error) -> {
                    if (error != null && !stopped) {
                        // The bucket stays, and with it all of its messages; the dispatcher reads them as well.
                        log.warn("[{}] Failed to take over the bucket {} of Pulsar's tracker; it is tried again when the topic"
                                + " is loaded", name, bucket, error);
                    }
                    next(left, index, offered);
                });
    }

    private CompletableFuture<Void> segments(long bucketId, int number, int count, LocalIndex index, Runnable offered) {
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
                    offered.run();
                    return until(() -> index.unconfirmedCount() < UNCONFIRMED_MAX);
                })
                .thenCompose(room -> segments(bucketId, number + 1, count, index, offered));
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

    /** Removes the property, and then the bucket's ledger, unless the property is malformed: then nothing says which that is. */
    private CompletableFuture<Void> remove(Map.Entry<String, String> bucket) {
        return cursor.removeCursorProperty(bucket.getKey()).thenCompose(
                removed -> isWellFormed(bucket) ? storage.delete(bucketId(bucket)) : CompletableFuture.completedFuture(null));
    }
}
