package delayedtracker.pulsar;

import com.google.common.util.concurrent.MoreExecutors;
import delayedtracker.v1.DeleteTrackerRequest;
import delayedtracker.v1.DeleteTrackerResponse;
import delayedtracker.v1.TrackerRef;
import io.grpc.stub.StreamObserver;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.delayed.BucketDelayedDeliveryTrackerFactory;
import org.apache.pulsar.broker.delayed.DelayedDeliveryTracker;
import org.apache.pulsar.broker.delayed.InMemoryDelayedDeliveryTrackerFactory;
import org.apache.pulsar.broker.delayed.bucket.RecoverDelayedDeliveryTrackerException;
import org.apache.pulsar.broker.service.persistent.AbstractPersistentDispatcherMultipleConsumers;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.common.util.Codec;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Makes the trackers of a broker: in the service, or Pulsar's own for topics that choose so. The value of
 * {@code delayedDeliveryTrackerFactoryClassName} in broker.conf.
 *
 * <p>It extends Pulsar's factory of trackers with buckets, because brokers tell only that one about subscriptions that are
 * deleted or cleared without a tracker.
 */
public class ServiceDelayedDeliveryTrackerFactory extends BucketDelayedDeliveryTrackerFactory {
    /** Makes a tracker, as its constructor does. */
    @FunctionalInterface
    interface NewTracker {
        DelayedDeliveryTracker make() throws RecoverDelayedDeliveryTrackerException;
    }

    private static final Logger log = LoggerFactory.getLogger(ServiceDelayedDeliveryTrackerFactory.class);

    private final InMemoryDelayedDeliveryTrackerFactory memory = new InMemoryDelayedDeliveryTrackerFactory();
    private PulsarService pulsar;
    private PluginSettings settings;
    private ServiceConnection connection;
    private PulsarBuckets buckets;

    /**
     * Reads the settings, and starts Pulsar's own trackers beside ours. It connects to nothing.
     *
     * @throws IllegalArgumentException a setting is wrong; the broker does not start
     */
    @Override
    public void initialize(PulsarService pulsarService) throws Exception {
        pulsar = pulsarService;
        settings = PluginSettings.of(pulsarService.getConfig().getProperties());
        super.initialize(pulsarService);
        memory.initialize(pulsarService);
        buckets = new PulsarBuckets(pulsarService);
        connection = new ServiceConnection(settings);
        log.info("Delayed messages are tracked by {}, unless a topic or namespace has another {}: {}",
                settings.addresses(), TrackerChoice.PROPERTY, settings.tracker());
    }

    @Override
    public DelayedDeliveryTracker newTracker(AbstractPersistentDispatcherMultipleConsumers dispatcher) {
        TrackerChoice choice = TrackerChoice.of(dispatcher, settings.tracker());
        if (choice == TrackerChoice.PULSAR) {
            return orInMemory(dispatcher, () -> super.newTracker(dispatcher));
        }
        // The cursor of a reader, or of another subscription that is not durable, is gone with its broker.
        if (choice == TrackerChoice.MEMORY || !dispatcher.getCursor().isDurable()) {
            return memory.newTracker(dispatcher);
        }
        ServiceConfiguration broker = pulsar.getConfig();
        return orInMemory(dispatcher, () -> new ServiceDelayedDeliveryTracker(
                dispatcher, broker.getDelayedDeliveryTickTimeMillis(), broker.isDelayedDeliveryDeliverAtTimeStrict(),
                settings, connection, buckets, "pulsar broker " + pulsar.getBrokerId()));
    }

    private DelayedDeliveryTracker orInMemory(AbstractPersistentDispatcherMultipleConsumers dispatcher, NewTracker wanted) {
        return orInMemory(dispatcher.getName(), dispatcher.getCursor(), wanted, () -> memory.newTracker(dispatcher));
    }

    /**
     * Makes a tracker, or one in memory if Pulsar's class, of which each is one, cannot be made: it throws all kinds of
     * exceptions if a property of a bucket is malformed. One that leaves this factory would end the dispatcher's reading.
     */
    static DelayedDeliveryTracker orInMemory(
            String name, ManagedCursor cursor, NewTracker wanted, Supplier<DelayedDeliveryTracker> inMemory) {
        try {
            return wanted.make();
        } catch (RecoverDelayedDeliveryTrackerException | RuntimeException error) {
            log.error("[{}] {}", name, whyInMemory(BucketImport.malformed(cursor)), error);
            return inMemory.get();
        }
    }

    /** Says what is not imported, and what the operator can do. */
    static String whyInMemory(Map<String, String> malformed) {
        String cause = malformed.isEmpty() ? "" : " These properties of its cursor are malformed: " + malformed
                + ". \"delayed-tracker pulsar repair\" removes them while the topic is not loaded.";
        return "Pulsar's tracker cannot be made, on which every other builds. The broker's memory tracks, until the topic is"
                + " loaded again; delayed messages are read from the topic, and buckets are neither read nor taken over." + cause;
    }

    /** Removes what Pulsar's tracker and the service have of a subscription without a tracker, which is cleared or deleted. */
    @Override
    public CompletableFuture<Void> cleanResidualSnapshots(ManagedCursor cursor) {
        return super.cleanResidualSnapshots(cursor).thenCompose(cleaned -> {
            String topic = TopicName.fromPersistenceNamingEncoding(cursor.getManagedLedger().getName());
            String subscription = Codec.decode(cursor.getName());
            TrackerRef tracker = TrackerRef.newBuilder().setTopic(topic).setSubscription(subscription).build();
            return deleteTracker(tracker, settings, connection);
        });
    }

    /** Deletes a tracker at the first address that answers; completes also if none does. */
    static CompletableFuture<Void> deleteTracker(TrackerRef tracker, PluginSettings settings, ServiceConnection connection) {
        CompletableFuture<Void> over = new CompletableFuture<>();
        deleteTracker(tracker, settings, connection, 0, over);
        return over;
    }

    private static void deleteTracker(TrackerRef tracker, PluginSettings settings, ServiceConnection connection, int address,
            CompletableFuture<Void> over) {
        DeleteTrackerRequest request = DeleteTrackerRequest.newBuilder().setTracker(tracker).build();
        connection.stub(address, MoreExecutors.directExecutor())
                .withDeadlineAfter(settings.callTimeoutMs(), TimeUnit.MILLISECONDS)
                .deleteTracker(request, new StreamObserver<DeleteTrackerResponse>() {
                    @Override
                    public void onNext(DeleteTrackerResponse answer) {}

                    @Override
                    public void onError(Throwable thrown) {
                        ServiceError error = ServiceError.of(thrown);
                        if (error.isUnanswered() && address + 1 < settings.addresses().size()) {
                            deleteTracker(tracker, settings, connection, address + 1, over);
                            return;
                        }
                        // The subscription must be deletable while the service is away: "pulsar gc" finds the rest.
                        log.warn("[{} / {}] The tracker stays in the service: {}",
                                tracker.getTopic(), tracker.getSubscription(), error.message());
                        over.complete(null);
                    }

                    @Override
                    public void onCompleted() {
                        over.complete(null);
                    }
                });
    }

    @Override
    public void close() throws Exception {
        if (connection != null) {
            connection.close();
        }
        if (buckets != null) {
            buckets.close();
        }
        memory.close();
        super.close();
    }
}
