package delayedtracker.pulsar;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import delayedtracker.pulsar.LocalIndex.Offer;
import delayedtracker.pulsar.LocalIndex.Place;
import java.lang.reflect.Proxy;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class BucketImportTest {
    private static final String PREFIX = "#pulsar.internal.delayed.bucket";

    private final Map<String, String> properties = new ConcurrentHashMap<>();
    private final Map<Long, List<Offer>> ledgers = new ConcurrentHashMap<>();
    private final LocalIndex index = new LocalIndex(10_000);
    private final ScheduledExecutorService threads = Executors.newScheduledThreadPool(1);
    private final BucketImport buckets = new BucketImport("topic / worker", cursor(), new Ledgers(), threads);

    /** Where buckets are kept; a ledger that is missing is noticed at once, and not by a future. */
    private final class Ledgers implements BucketImport.Storage {
        @Override
        public CompletableFuture<Integer> segmentCount(long bucketId) {
            if (!ledgers.containsKey(bucketId)) {
                throw new IllegalStateException("no ledger " + bucketId);
            }
            return CompletableFuture.completedFuture(1);
        }

        @Override
        public CompletableFuture<List<Offer>> segment(long bucketId, int number) {
            return CompletableFuture.completedFuture(ledgers.get(bucketId));
        }

        @Override
        public CompletableFuture<Void> delete(long bucketId) {
            ledgers.remove(bucketId);
            return CompletableFuture.completedFuture(null);
        }
    }

    /** A cursor that has properties, and has acknowledged nothing. */
    private ManagedCursor cursor() {
        return (ManagedCursor) Proxy.newProxyInstance(
                getClass().getClassLoader(), new Class<?>[] {ManagedCursor.class}, (cursor, method, arguments) -> {
                    switch (method.getName()) {
                        case "getCursorProperties":
                            return Map.copyOf(properties);
                        case "isMessageDeleted":
                            return false;
                        case "removeCursorProperty":
                            properties.remove((String) arguments[0]);
                            return CompletableFuture.completedFuture(null);
                        default:
                            throw new UnsupportedOperationException(method.getName());
                    }
                });
    }

    @BeforeEach
    void twoBuckets() {
        properties.put("of a user", "anything");
        properties.put(PREFIX + "_1_3", "101");
        properties.put(PREFIX + "_4_4", "102");
        ledgers.put(101L, List.of(new Offer(new Place(1, 0), 500), new Offer(new Place(3, 0), 500)));
        ledgers.put(102L, List.of(new Offer(new Place(4, 0), 500)));
        index.reconcile(new Membership());
        index.setImporting(buckets.isNeeded());
    }

    @AfterEach
    void end() {
        threads.shutdownNow();
    }

    /** The service takes everything at once. */
    private void confirm() {
        index.confirm(index.unconfirmed(100), index.generation());
    }

    /** While buckets are being imported, what is delivered is remembered, so that no bucket brings it back. */
    private boolean isImporting() {
        index.deliver(99, 0);
        index.addImported(99, 0, 500);
        boolean isRemembered = !index.contains(99, 0);
        index.deliver(99, 0);
        return isRemembered;
    }

    @Test
    void importsOneAfterTheOtherAndRemovesThem() {
        assertTrue(isImporting());
        buckets.start(index, this::confirm);
        assertEquals(3, index.count());
        assertEquals(Set.of("of a user"), properties.keySet());
        assertEquals(Map.of(), ledgers);
        assertFalse(isImporting());
    }

    @ParameterizedTest
    @CsvSource({
        "_0_0, many", "_5_5, many", "_5_5, ''", "_5_5, -1", "_5_5, 99999999999999999999", "_5, 102", "'', 102", "_5_x, 102",
        "_6_5, 102", "_5_5_5, 102",
    })
    void aMalformedPropertyIsSkippedAndTheOthersAreImported(String key, String value) {
        properties.put(PREFIX + key, value);
        assertEquals(Map.of(PREFIX + key, value), BucketImport.malformed(cursor()));
        buckets.start(index, this::confirm);
        assertEquals(3, index.count());
        assertEquals(Set.of("of a user", PREFIX + key), properties.keySet());
        assertFalse(isImporting());
    }

    @Test
    void aMalformedPropertyAloneEndsTheImport() {
        properties.keySet().removeIf(key -> key.startsWith(PREFIX));
        properties.put(PREFIX + "_5_5", "many");
        buckets.start(index, this::confirm);
        assertFalse(isImporting());
    }

    @Test
    void aBucketThatCannotBeReadStaysAndTheOthersAreImported() {
        Set<String> left = new HashSet<>(Set.of("of a user", PREFIX + "_1_3"));
        ledgers.remove(101L);
        buckets.start(index, this::confirm);
        assertEquals(1, index.count());
        assertEquals(left, properties.keySet());
        assertFalse(isImporting());
    }

    @Test
    void aClearRemovesMalformedPropertiesToo() {
        properties.put(PREFIX + "_0_0", "many");
        buckets.discard().join();
        assertEquals(Set.of("of a user"), properties.keySet());
        assertEquals(Map.of(), ledgers);
    }
}
