package delayedtracker.pulsar;

import delayedtracker.pulsar.LocalIndex.Place;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableSet;
import java.util.Optional;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.LongAdder;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.broker.delayed.bucket.RecoverDelayedDeliveryTrackerException;
import org.apache.pulsar.broker.service.BrokerService;
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.PendingAcksMap;
import org.apache.pulsar.broker.service.Topic;
import org.apache.pulsar.broker.service.persistent.AbstractPersistentDispatcherMultipleConsumers;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.common.policies.data.stats.TopicMetricBean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tracks the delayed messages of one subscription in the service.
 *
 * <p>The dispatcher calls these methods under its lock. They look at the {@link LocalIndex} and leave tasks for the
 * {@link TrackerSession}; none waits for the service. It extends Pulsar's tracker with buckets, and uses nothing of it,
 * because the dispatcher skips tracked entries only for that class.
 */
final class ServiceDelayedDeliveryTracker extends BucketTrackerBase implements TrackerSession.Broker {
    private static final Logger log = LoggerFactory.getLogger(ServiceDelayedDeliveryTracker.class);

    /** After so long a message that seems to have come back at once is looked at again. */
    private static final long LOOK_AGAIN_MS = 50;

    private final LocalIndex index;
    private final SentLately sentLately = new SentLately();
    private final PluginSettings settings;
    private final ServiceConnection connection;
    private final TrackerSession session;
    private final BucketImport buckets;
    private final LongAdder pauses = new LongAdder();
    private final LongAdder repeats = new LongAdder();
    private volatile boolean paused;
    private volatile boolean closed;

    private final WakeTimer timer;

    ServiceDelayedDeliveryTracker(AbstractPersistentDispatcherMultipleConsumers dispatcher, long tickTimeMillis,
            boolean isDelayedDeliveryDeliverAtTimeStrict, PluginSettings settings, ServiceConnection connection,
            BucketImport.Storage pulsarsBuckets, String owner) throws RecoverDelayedDeliveryTrackerException {
        super(dispatcher, tickTimeMillis, isDelayedDeliveryDeliverAtTimeStrict);
        this.settings = settings;
        this.connection = connection;
        this.index = new LocalIndex(settings.unconfirmedMax());
        this.buckets = new BucketImport(dispatcher.getName(), dispatcher.getCursor(), pulsarsBuckets, connection.threads());
        this.timer = new WakeTimer(connection.threads(), clock::millis, patienceMs(), dispatcher::readMoreEntriesAsync);
        this.session = new TrackerSession(dispatcher.getTopic().getName(), dispatcher.getSubscription().getName(), owner,
                settings, connection, index, this);
        index.setImporting(buckets.isNeeded());
        session.start();
    }

    @Override
    public boolean addMessage(long ledgerId, long entryId, long deliverAt) {
        if (deliverAt < 0) {
            return false;
        }
        if (deliverAt <= getCutoffTime()) {
            if (isHandled(ledgerId, entryId)) {
                repeats.increment();
                return true;
            }
            if (sentLately.isRepeated(ledgerId, entryId, System.nanoTime())) {
                // Perhaps its acknowledgement is on its way from the consumer to the cursor.
                if (index.postpone(ledgerId, entryId, getCutoffTime() + LOOK_AGAIN_MS)) {
                    setTimer();
                }
                return true;
            }
            if (index.deliver(ledgerId, entryId)) {
                session.taken();
            }
            return false;
        }
        if (index.add(ledgerId, entryId, deliverAt)) {
            session.offered();
            if (index.isLocal()) {
                setTimer();
            }
        }
        return true;
    }

    /**
     * Returns whether a consumer has the message, or has acknowledged it.
     *
     * <p>A dispatcher whose normal read ends just before a replay is free to read again as soon as it has sent what the former
     * read, and then replays what it has replayed, but not sent yet. It asks here before it sends a message. For a moment an
     * acknowledged message is neither the consumer's nor marked in the cursor: see {@link SentLately}.
     */
    private boolean isHandled(long ledgerId, long entryId) {
        for (Consumer consumer : dispatcher.getConsumers()) {
            PendingAcksMap pending = consumer.getPendingAcks();
            if (pending != null && pending.contains(ledgerId, entryId)) {
                return true;
            }
        }
        return dispatcher.getCursor().isMessageDeleted(PositionFactory.create(ledgerId, entryId));
    }

    @Override
    public boolean containsMessage(long ledgerId, long entryId) {
        return index.contains(ledgerId, entryId);
    }

    @Override
    public boolean hasMessageAvailable() {
        if (index.nextDeliveryTimeMs() <= getCutoffTime()) {
            return true;
        }
        setTimer();
        return false;
    }

    @Override
    public NavigableSet<Position> getScheduledMessages(int maxMessages) {
        List<Place> taken = index.takeDue(getCutoffTime(), maxMessages);
        NavigableSet<Position> positions = new TreeSet<>();
        taken.forEach(place -> positions.add(PositionFactory.create(place.ledgerId(), place.entryId())));
        if (!taken.isEmpty()) {
            session.taken();
        }
        setTimer();
        return positions;
    }

    @Override
    protected long nextDeliveryTime() {
        return index.nextDeliveryTimeMs();
    }

    @Override
    public long getNumberOfDelayedMessages() {
        return index.count();
    }

    @Override
    public long getBufferMemoryUsage() {
        return index.bytes();
    }

    /** Bounds what the broker alone has: then the dispatcher stops reading, but not what is due. */
    @Override
    public boolean shouldPauseAllDeliveries() {
        if (!index.isFull()) {
            paused = false;
            return false;
        }
        if (!paused) {
            paused = true;
            pauses.increment();
        }
        return index.nextDeliveryTimeMs() > getCutoffTime();
    }

    @Override
    public CompletableFuture<Void> clear() {
        index.clear();
        session.clear();
        return buckets.discard();
    }

    @Override
    public void close() {
        closeAsync();
    }

    /** Has the session end; the tracker of a subscription whose cursor is gone is deleted. */
    @Override
    public CompletableFuture<Void> closeAsync() {
        if (closed || session == null) {
            return CompletableFuture.completedFuture(null);
        }
        closed = true;
        timer.close();
        releaseQueues();
        buckets.stop();
        return session.close(isCursorGone());
    }

    @Override
    public Map<String, TopicMetricBean> genTopicMetricMap() {
        Map<String, TopicMetricBean> metrics = new HashMap<>();
        put(metrics, "pulsar_delayed_message_index_loaded", index.waitingCount() + index.unconfirmedCount());
        put(metrics, "pulsar_delayed_tracker_unconfirmed", index.unconfirmedCount());
        put(metrics, "pulsar_delayed_tracker_fetched_ahead", index.leasedCount());
        put(metrics, "pulsar_delayed_tracker_refused_total", index.refusals());
        put(metrics, "pulsar_delayed_tracker_round_trips_total", session.calls());
        put(metrics, "pulsar_delayed_tracker_reconnects_total", session.reopenings());
        put(metrics, "pulsar_delayed_tracker_pauses_total", pauses.sum());
        put(metrics, "pulsar_delayed_tracker_repeats_total", repeats.sum());
        put(metrics, "pulsar_delayed_tracker_connected", session.isReady() ? 1 : 0);
        return metrics;
    }

    @Override
    public Place markDelete() {
        Position position = dispatcher.getCursor().getMarkDeletedPosition();
        return position == null ? null : new Place(position.getLedgerId(), position.getEntryId());
    }

    @Override
    public CompletableFuture<TrackerSession.Ownership> ownership() {
        Topic topic = dispatcher.getTopic();
        BrokerService broker = topic.getBrokerService();
        // While a topic is being loaded it is not there yet.
        Optional<Topic> loaded = broker.getTopicReference(topic.getName());
        if (dispatcher.getCursor().isClosed() || loaded.isPresent() && loaded.get() != topic) {
            return CompletableFuture.completedFuture(TrackerSession.Ownership.OBSOLETE);
        }
        return broker.isTopicNsOwnedByBrokerAsync(TopicName.get(topic.getName())).thenApply(
                owned -> owned ? TrackerSession.Ownership.OURS : TrackerSession.Ownership.ELSEWHERE);
    }

    @Override
    public long patienceMs() {
        return tickTimeMillis / 10;
    }

    @Override
    public void wake() {
        if (closed) {
            return;
        }
        if (paused && index.hasRoomAgain()) {
            paused = false;
            dispatcher.readMoreEntriesAsync();
        } else {
            setTimer(true);
        }
    }

    @Override
    public void opened() {
        buckets.start(index, session::offered);
    }

    private void setTimer() {
        setTimer(false);
    }

    /**
     * Wakes the dispatcher when the next position is due.
     *
     * @param anew whether to wake it for what is due already; otherwise it comes by itself once consumers have room
     */
    private void setTimer(boolean anew) {
        long nextMs = index.nextDeliveryTimeMs();
        boolean due = nextMs <= getCutoffTime();
        if (nextMs != Long.MAX_VALUE && (anew || !due)) {
            timer.set(nextMs, due);
        }
    }

    private boolean isCursorGone() {
        ManagedCursor cursor = dispatcher.getCursor();
        for (ManagedCursor each : cursor.getManagedLedger().getCursors()) {
            if (each.getName().equals(cursor.getName())) {
                return false;
            }
        }
        log.info("[{}] The subscription is deleted, and its tracker with it", dispatcher.getName());
        return true;
    }

    private static void put(Map<String, TopicMetricBean> metrics, String name, long value) {
        metrics.put(name, new TopicMetricBean(name, value, null));
    }
}
