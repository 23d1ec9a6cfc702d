package delayedtracker.pulsar;

import static delayedtracker.pulsar.ServiceDelayedDeliveryTrackerFactory.deleteTracker;
import static delayedtracker.pulsar.ServiceDelayedDeliveryTrackerFactory.orInMemory;
import static delayedtracker.pulsar.ServiceDelayedDeliveryTrackerFactory.whyInMemory;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import delayedtracker.pulsar.ServiceDelayedDeliveryTrackerFactory.NewTracker;
import delayedtracker.v1.TrackerRef;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.pulsar.broker.delayed.DelayedDeliveryTracker;
import org.apache.pulsar.broker.delayed.bucket.RecoverDelayedDeliveryTrackerException;
import org.junit.jupiter.api.Test;

class ServiceDelayedDeliveryTrackerFactoryTest {
    private static final String KEY = "#pulsar.internal.delayed.bucket_1_1";

    private final ManagedCursor cursor = made(ManagedCursor.class, Map.of(KEY, "many"));
    private final DelayedDeliveryTracker wanted = made(DelayedDeliveryTracker.class, null);
    private final DelayedDeliveryTracker memory = made(DelayedDeliveryTracker.class, null);

    /** Makes an object of an interface of Pulsar's, whose methods all return the same. */
    private static <T> T made(Class<T> type, Object result) {
        return type.cast(Proxy.newProxyInstance(
                type.getClassLoader(), new Class<?>[] {type}, (made, method, arguments) -> result));
    }

    @Test
    void makesWhatIsWanted() {
        assertSame(wanted, orInMemory("topic / worker", cursor, () -> wanted, () -> memory));
    }

    @Test
    void noExceptionOfPulsarsClassLeavesTheFactory() {
        List<NewTracker> failing = List.of(
                () -> {
                    throw new RecoverDelayedDeliveryTrackerException(new IllegalStateException("no ledger"));
                },
                () -> {
                    throw new IllegalArgumentException();
                },
                () -> {
                    throw new NumberFormatException("many");
                });
        for (NewTracker each : failing) {
            assertSame(memory, orInMemory("topic / worker", cursor, each, () -> memory));
        }
    }

    @Test
    void theFirstAddressThatAnswersDeletesATracker() throws Exception {
        TrackerRef tracker = TrackerRef.newBuilder().setTopic("topic").setSubscription("worker").build();
        try (FakeService first = new FakeService(); FakeService second = new FakeService()) {
            PluginSettings settings = FakeService.settings(first, second);
            try (ServiceConnection connection = new ServiceConnection(settings)) {
                deleteTracker(tracker, settings, connection).get(10, TimeUnit.SECONDS);
                assertEquals(0, second.deletes.get());
                first.deleteError = FakeService.unanswered();
                deleteTracker(tracker, settings, connection).get(10, TimeUnit.SECONDS);
                assertEquals(1, second.deletes.get());
                second.deleteError = FakeService.unanswered();
                deleteTracker(tracker, settings, connection).get(10, TimeUnit.SECONDS);
            }
        }
    }

    @Test
    void theReasonNamesThePropertiesAndTheRemedy() {
        String reason = whyInMemory(BucketImport.malformed(cursor));
        assertTrue(reason.contains(KEY + "=many"), reason);
        assertTrue(reason.contains("pulsar repair"), reason);
        assertFalse(whyInMemory(Map.of()).contains("malformed"), whyInMemory(Map.of()));
    }
}
