package delayedtracker.pulsar;

import com.google.common.util.concurrent.MoreExecutors;
import delayedtracker.pulsar.LocalIndex.Acknowledgement;
import delayedtracker.pulsar.LocalIndex.Offer;
import delayedtracker.pulsar.LocalIndex.Place;
import delayedtracker.v1.AddMessagesResponse;
import delayedtracker.v1.PollScheduledMessagesResponse;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps the service's tracker and the {@link LocalIndex} of one subscription the same: opens the tracker, sends what changed, one
 * call after the other, and fetches ahead what will be due.
 *
 * <p>Everything here runs in one sequence of tasks on the shared threads. The broker's threads only leave a task.
 */
final class TrackerSession {
    /** What a session needs of the broker. No method waits. */
    interface Broker {
        /** Returns the cursor's mark-delete position; null if it has none. */
        Place markDelete();

        /** Completes with whose the tracker is. */
        CompletableFuture<Ownership> ownership();

        /** Something is due, or reading may go on. */
        void wake();

        /** Returns how long a message that is due may wait for others, in milliseconds. */
        long patienceMs();

        /** The tracker was opened for the first time. */
        void opened();
    }

    /** Who may open the tracker. */
    enum Ownership {
        /** This dispatcher: the broker owns the topic, and has it loaded with this dispatcher. */
        OURS,
        /** Another broker, or nobody knows at the moment. */
        ELSEWHERE,
        /** Another dispatcher of this broker, which has loaded the topic again since: this one is left over. */
        OBSOLETE
    }

    private enum State { OPENING, READY, CLOSED }

    private static final Logger log = LoggerFactory.getLogger(TrackerSession.class);
    private static final long TICK_MS = 1_000;
    private static final long PAUSE_MIN_MS = 100;
    private static final long PAUSE_MAX_MS = 5_000;
    private static final int ACKNOWLEDGEMENTS_MAX = 1_000;
    /** After fewer messages than these the next poll waits a little: each message as it becomes due would cost two calls. */
    private static final int FEW = 100;
    /** After so many calls in a row without an answer the tracker is opened at the next address. */
    private static final int UNANSWERED_MAX = 3;
    /** After so many openings in a row that failed the next address is tried, whatever this one answers. */
    private static final int FAILED_OPENINGS_MAX = 10;
    /** So many leases are extended, each by a call; messages that come one by one without a consumer have hundreds. */
    private static final int EXTENSIONS_MAX = 16;
    /** How often both sides count what they track. */
    private static final long COMPARE_MS = 30_000;

    private final String name;
    private final TrackerCalls calls;
    private final String owner;
    private final PluginSettings settings;
    private final ServiceConnection connection;
    private final LocalIndex index;
    private final Broker broker;
    private final Executor sequence;
    private final LongAdder openings = new LongAdder();

    private volatile State state = State.OPENING;
    private volatile boolean clearRequested;
    private boolean fenced;
    private Place sentMarkDelete;
    private long advancedAtNs = System.nanoTime();
    private long extendedAtNs = System.nanoTime();
    private long comparedAtNs = System.nanoTime();
    private boolean differed;
    private long failingSinceNs = System.nanoTime();
    private int failures;
    private int unanswered;
    private int batchMax;
    /** Counts openings from their beginning: what was asked in the life before is not listened to. */
    private int life;
    private boolean sending;
    private boolean sendSoon;
    private boolean opened;
    private TrackerCalls.Poll polling;
    private boolean pollPauses;
    private ScheduledFuture<?> ticks;
    private CompletableFuture<Void> closing;
    private boolean deleteAtClose;

    TrackerSession(String topic, String subscription, String owner, PluginSettings settings, ServiceConnection connection,
            LocalIndex index, Broker broker) {
        this.name = topic + " / " + subscription;
        this.owner = owner;
        this.settings = settings;
        this.connection = connection;
        this.index = index;
        this.broker = broker;
        this.batchMax = settings.addBatchMax();
        this.sequence = MoreExecutors.newSequentialExecutor(connection.threads());
        this.calls = new TrackerCalls(
                topic, subscription, connection, settings, sequence, () -> state == State.CLOSED ? -1 : life);
    }

    void start() {
        sequence.execute(() -> {
            ticks = connection.threads().scheduleWithFixedDelay(
                    () -> sequence.execute(this::tick), TICK_MS, TICK_MS, TimeUnit.MILLISECONDS);
            open();
        });
    }

    /** Has new offers sent within {@code addDelayMs}. */
    void offered() {
        sequence.execute(() -> {
            if (!sendSoon) {
                sendSoon = true;
                connection.threads().schedule(() -> sequence.execute(() -> {
                    sendSoon = false;
                    send();
                }), settings.addDelayMs(), TimeUnit.MILLISECONDS);
            }
        });
    }

    /** Has acknowledgements sent, and more fetched. */
    void taken() {
        sequence.execute(() -> {
            send();
            poll();
        });
    }

    /** Has the service forget everything, before anything that is added from now on. */
    void clear() {
        clearRequested = true;
        sequence.execute(this::send);
    }

    /**
     * Sends what is left, and closes the tracker, or deletes it because the subscription is gone.
     *
     * @return completes when the service has it, or after the time-out of closing
     */
    CompletableFuture<Void> close(boolean delete) {
        CompletableFuture<Void> done = new CompletableFuture<>();
        sequence.execute(() -> {
            if (state == State.CLOSED || closing != null) {
                done.complete(null);
                return;
            }
            closing = done;
            deleteAtClose = delete;
            cancelPoll();
            connection.threads().schedule(
                    () -> sequence.execute(this::end), settings.closeTimeoutMs(), TimeUnit.MILLISECONDS);
            if (state == State.READY) {
                send();
            } else {
                end();
            }
        });
        return done;
    }

    boolean isReady() {
        return state == State.READY;
    }

    /** Returns how many calls were answered, with a result or an error. */
    long calls() {
        return calls.answered();
    }

    /** Returns how often the tracker was opened after the first time. */
    long reopenings() {
        return Math.max(0, openings.sum() - 1);
    }

    private void tick() {
        if (state == State.CLOSED) {
            return;
        }
        broker.wake();
        if (state != State.READY) {
            return;
        }
        send();
        poll();
        if (System.nanoTime() - comparedAtNs >= TimeUnit.MILLISECONDS.toNanos(COMPARE_MS)) {
            comparedAtNs = System.nanoTime();
            compareCounts();
        }
        if (System.nanoTime() - extendedAtNs >= TimeUnit.MILLISECONDS.toNanos(settings.leaseMs() / 3)) {
            extendedAtNs = System.nanoTime();
            // What is left of others is handed out again when they end, and known here: so it is taken once all the same.
            index.leases(EXTENSIONS_MAX).forEach(calls::extend);
        }
    }

    /**
     * Counts on both sides, when nothing is on its way: twice another number means that the service has lost something, or has
     * something too many, as after a restored backup. Opening the tracker anew mends both.
     */
    private void compareCounts() {
        if (sending || closing != null || index.hasSomethingToSend()) {
            return;
        }
        long version = index.version();
        long expected = index.trackedByService();
        calls.stats(stats -> {
            long tracked = stats.getPendingCount() + stats.getLeasedCount();
            if (index.version() != version || sending) {
                return;
            }
            if (tracked == expected) {
                differed = false;
            } else if (!differed) {
                differed = true;
            } else {
                differed = false;
                log.warn("[{}] The service tracks {}, and {} are tracked here; the tracker is opened anew",
                        name, tracked, expected);
                reopen();
            }
        }, error -> { });
    }

    // --- opening ---

    private void open() {
        if (state == State.CLOSED || closing != null) {
            return;
        }
        broker.ownership().exceptionally(unknown -> Ownership.ELSEWHERE).thenAcceptAsync(ownership -> {
            if (state != State.OPENING || closing != null) {
                return;
            }
            if (ownership == Ownership.OBSOLETE) {
                // A broker that lost its session drops topics without closing their trackers.
                log.info("[{}] The topic was loaded again, with another tracker; this one ends", name);
                end();
            } else if (ownership == Ownership.OURS || !fenced) {
                openTracker();
            } else {
                later(PAUSE_MAX_MS, this::open); // whoever owns the topic has its tracker
            }
        }, sequence);
    }

    private void openTracker() {
        calls.open(owner, broker.markDelete(), () -> {
            openings.increment();
            sentMarkDelete = null;
            if (clearRequested) {
                clearService(this::compareMarkDelete, this::openingFailed);
            } else {
                compareMarkDelete();
            }
        }, this::openingFailed);
    }

    /** Takes the cursor back in the service if it is behind there: it was reset, made anew, or fell back in a crash. */
    private void compareMarkDelete() {
        calls.stats(stats -> {
            sentMarkDelete = stats.hasMarkDelete() ? TrackerCalls.place(stats.getMarkDelete()) : null;
            Place markDelete = broker.markDelete();
            if (isBehind(markDelete)) {
                resetCursor(markDelete, this::fill, this::openingFailed);
            } else {
                fill();
            }
        }, this::openingFailed);
    }

    private void fill() {
        calls.membership(this::filled, this::openingFailed);
    }

    private void filled(Membership tracked) {
        if (state == State.CLOSED || closing != null) {
            return;
        }
        if (clearRequested) {
            tracked = new Membership();
        }
        long known = tracked.count();
        index.reconcile(tracked);
        state = State.READY;
        fenced = false;
        succeeded();
        log.info("[{}] Tracker opened at {}, epoch {}, {} tracked by the service, {} here",
                name, calls.address(), calls.epoch(), known, index.count());
        if (!opened) {
            opened = true;
            broker.opened();
        }
        send();
        poll();
        broker.wake();
    }

    private void openingFailed(ServiceError error) {
        if (state == State.CLOSED) {
            return;
        }
        failed("open", error);
        if (error.action() == ServiceError.Action.FENCED) {
            fenced = true;
        } else if (error.action() == ServiceError.Action.RETRY && isTimeToMove(error)) {
            unanswered = 0;
            calls.changeAddress();
        }
        later(pauseMs(error), this::open);
    }

    /** Tells whether to open elsewhere. A slow recovery would only be fenced by another one, and begin again at the way back. */
    private boolean isTimeToMove(ServiceError error) {
        return error.isUnreachable() || unanswered >= UNANSWERED_MAX || failures % FAILED_OPENINGS_MAX == 0;
    }

    private void reopen() {
        if (state == State.READY) {
            state = State.OPENING;
            life++;
            sending = false;
            pollPauses = false;
            cancelPoll();
            if (closing == null) {
                open();
            } else {
                end();
            }
        }
    }

    // --- sending ---

    private void send() {
        if (state == State.READY && !sending) {
            sending = true;
            sendNext();
        }
    }

    /** Sends what comes next. Acknowledgements go before offers: a position may be offered again after it was taken. */
    private void sendNext() {
        if (state != State.READY) {
            return;
        }
        Place markDelete = broker.markDelete();
        if (clearRequested) {
            clearService(this::sendNext, this::sendingFailed);
        } else if (isBehind(markDelete)) {
            resetCursor(markDelete, this::sendNext, this::sendingFailed);
        } else if (!sendAcknowledgements() && !sendCancellations() && !sendOffers() && !sendMarkDelete(markDelete)) {
            sending = false;
            if (closing != null) {
                closeTracker();
            }
        }
    }

    private boolean sendAcknowledgements() {
        List<Acknowledgement> next = index.takeAcknowledgements(ACKNOWLEDGEMENTS_MAX);
        if (!next.isEmpty()) {
            // One that is lost is harmless: the service hands the position out again, and here it is not tracked.
            calls.acknowledge(next, this::sent, this::sendingFailed);
        }
        return !next.isEmpty();
    }

    private boolean sendCancellations() {
        List<Place> next = index.takeCancellations(settings.addBatchMax());
        if (!next.isEmpty()) {
            calls.cancel(next, this::sent, this::sendingFailed);
        }
        return !next.isEmpty();
    }

    private boolean sendOffers() {
        long generation = index.generation();
        List<Offer> next = index.unconfirmed(batchMax);
        if (next.isEmpty()) {
            return false;
        }
        calls.add(next, answer -> {
            settle(next, answer, generation);
            batchMax = Math.min(settings.addBatchMax(), batchMax * 2);
            sent();
        }, error -> {
            boolean oneIsWrong = error.reason().startsWith("INVALID");
            if (oneIsWrong && next.size() == 1) {
                log.warn("[{}] The service refuses {}, which waits in the broker: {}", name, next.get(0), error.message());
                index.refuse(next, generation);
                sent();
            } else if (oneIsWrong || error.action() == ServiceError.Action.SMALLER && next.size() > 1) {
                batchMax = Math.max(1, next.size() / 2);
                sendNext();
            } else {
                sendingFailed(error);
            }
        });
        return true;
    }

    private void settle(List<Offer> offers, AddMessagesResponse answer, long generation) {
        Set<Integer> refused = new HashSet<>(answer.getDueOffsetsList());
        refused.addAll(answer.getBeyondMaxDelayOffsetsList());
        Set<Integer> below = new HashSet<>(answer.getBelowMarkDeleteOffsetsList());
        Place markDelete = broker.markDelete();
        List<Offer> confirmed = new ArrayList<>();
        List<Offer> waiting = new ArrayList<>();
        for (int i = 0; i < offers.size(); i++) {
            Offer offer = offers.get(i);
            if (below.contains(i) && isBehind(markDelete)) {
                continue; // the cursor went back: offered again behind its reset
            }
            (refused.contains(i) || below.contains(i) ? waiting : confirmed).add(offer);
        }
        index.confirm(confirmed, generation);
        index.refuse(waiting, generation);
        if (!waiting.isEmpty()) {
            broker.wake();
        }
    }

    private boolean sendMarkDelete(Place markDelete) {
        boolean moved = markDelete != null && (sentMarkDelete == null || markDelete.compareTo(sentMarkDelete) > 0);
        if (!moved || closing == null && System.nanoTime() - advancedAtNs < TimeUnit.MILLISECONDS.toNanos(TICK_MS)) {
            return false;
        }
        advancedAtNs = System.nanoTime();
        index.trim(markDelete.ledgerId(), markDelete.entryId());
        calls.advanceMarkDelete(markDelete, inForce -> {
            sentMarkDelete = inForce;
            sent();
        }, this::sendingFailed);
        return true;
    }

    private void clearService(Runnable then, Consumer<ServiceError> failed) {
        clearRequested = false;
        calls.clear(() -> {
            succeeded();
            then.run();
        }, error -> {
            clearRequested = true;
            failed.accept(error);
        });
    }

    private void resetCursor(Place markDelete, Runnable then, Consumer<ServiceError> failed) {
        log.info("[{}] The cursor went back from {} to {}", name, sentMarkDelete, markDelete);
        calls.resetCursor(markDelete, () -> {
            sentMarkDelete = markDelete;
            succeeded();
            then.run();
        }, failed);
    }

    private void sent() {
        succeeded();
        broker.wake();
        sendNext();
    }

    private void sendingFailed(ServiceError error) {
        int before = life;
        failed("send", error);
        if (life != before) {
            return;
        }
        switch (error.action()) {
            case FENCED -> {
                fenced = true;
                reopen();
            }
            case REOPEN -> reopen();
            default -> {
                if (!moveOn()) {
                    later(pauseMs(error), this::sendNext);
                }
            }
        }
    }

    /** Opens the tracker at the next address if this one is away; returns whether it does. */
    private boolean moveOn() {
        // A topic that is being unloaded has no time for another opening.
        if (unanswered < UNANSWERED_MAX || settings.addresses().size() == 1 || closing != null) {
            return false;
        }
        unanswered = 0;
        log.warn("[{}] {} does not answer; the tracker is opened at the next address", name, calls.address());
        calls.changeAddress();
        reopen();
        return true;
    }

    // --- fetching ---

    private void poll() {
        int room = settings.prefetchMax() - index.leasedCount();
        boolean isBusy = polling != null || pollPauses || room * 2 < settings.prefetchMax();
        if (state != State.READY || closing != null || isBusy) {
            return;
        }
        long ofEpoch = calls.epoch();
        polling = calls.poll(room, answer -> {
            polling = null;
            handedOut(answer);
        }, error -> {
            polling = null;
            pollFailed(error, ofEpoch);
        });
    }

    private void pollFailed(ServiceError error, long ofEpoch) {
        boolean ended = error.action() == ServiceError.Action.FENCED || error.action() == ServiceError.Action.REOPEN;
        if (calls.epoch() != ofEpoch) {
            poll(); // the answer to a clear or a reset came first
        } else if (ended && sending) {
            pollAfter(PAUSE_MIN_MS); // a clear or a reset may be under way, which ends polls before it is answered
        } else if (ended) {
            sendingFailed(error);
        } else {
            int before = life;
            failed("poll", error);
            if (life == before && !moveOn()) {
                pollAfter(pauseMs(error));
            }
        }
    }

    private void pollAfter(long pauseMs) {
        pollPauses = true;
        later(pauseMs, () -> {
            pollPauses = false;
            poll();
        });
    }

    private void handedOut(PollScheduledMessagesResponse answer) {
        succeeded();
        List<Offer> offers = new ArrayList<>(answer.getLedgerIdsCount());
        for (int i = 0; i < answer.getLedgerIdsCount(); i++) {
            offers.add(new Offer(new Place(answer.getLedgerIds(i), answer.getEntryIds(i)), answer.getDeliverAtMs(i)));
        }
        index.handedOut(answer.getLeaseId(), offers);
        if (answer.getReplayRequired()) {
            log.warn("[{}] The service has lost snapshots; what is missing is read again", name);
            reopen();
            return;
        }
        if (!offers.isEmpty()) {
            broker.wake();
            send();
        }
        if (offers.isEmpty() || offers.size() >= FEW) {
            poll();
        } else {
            pollAfter(broker.patienceMs());
        }
    }

    private void cancelPoll() {
        if (polling != null) {
            polling.cancel();
            polling = null;
        }
    }

    // --- closing ---

    private void closeTracker() {
        if (deleteAtClose) {
            calls.delete(this::end, error -> {
                log.warn("[{}] The tracker of a deleted subscription stays in the service: {}", name, error.message());
                end();
            });
        } else {
            calls.close(this::end);
        }
    }

    private void end() {
        if (state == State.CLOSED) {
            return;
        }
        state = State.CLOSED;
        cancelPoll();
        if (ticks != null) {
            ticks.cancel(false);
        }
        if (closing != null) {
            closing.complete(null);
        }
    }

    // --- helpers ---

    private boolean isBehind(Place markDelete) {
        return markDelete != null && sentMarkDelete != null && markDelete.compareTo(sentMarkDelete) < 0;
    }

    /** Runs a task after a while, unless the tracker is being opened anew by then. */
    private void later(long delayMs, Runnable task) {
        int asked = life;
        Runnable inLife = () -> {
            if (life == asked) {
                task.run();
            }
        };
        connection.threads().schedule(() -> sequence.execute(inLife), delayMs, TimeUnit.MILLISECONDS);
    }

    private void succeeded() {
        failures = 0;
        unanswered = 0;
        failingSinceNs = System.nanoTime();
    }

    private void failed(String what, ServiceError error) {
        failures++;
        unanswered = error.isUnanswered() ? unanswered + 1 : 0;
        // Each power of two, so that an outage of hours is a dozen lines.
        if (Integer.bitCount(failures) == 1) {
            log.warn("[{}] Failed to {} at {} ({} in a row): {}",
                    name, what, calls.address(), failures, error.message());
        }
        long failingMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - failingSinceNs);
        if (settings.fallBackAfterMs() >= 0 && failingMs >= settings.fallBackAfterMs() && !index.isLocal()) {
            log.warn("[{}] The service is away for {} ms; the index is kept in memory until it is back", name, failingMs);
            index.fallBack();
            broker.wake();
            reopen();
        }
    }

    private long pauseMs(ServiceError error) {
        if (error.action() == ServiceError.Action.REFUSED) {
            return PAUSE_MAX_MS;
        }
        long doubled = PAUSE_MIN_MS << Math.min(failures, 6);
        return Math.min(PAUSE_MAX_MS, Math.max(error.retryAfterMs(), doubled));
    }
}
