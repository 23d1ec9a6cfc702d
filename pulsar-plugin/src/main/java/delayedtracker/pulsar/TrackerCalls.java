package delayedtracker.pulsar;

import delayedtracker.pulsar.LocalIndex.Acknowledgement;
import delayedtracker.pulsar.LocalIndex.Offer;
import delayedtracker.pulsar.LocalIndex.Place;
import delayedtracker.v1.AckMessagesRequest;
import delayedtracker.v1.AddMessagesRequest;
import delayedtracker.v1.AddMessagesResponse;
import delayedtracker.v1.AdvanceMarkDeleteRequest;
import delayedtracker.v1.CancelMessagesRequest;
import delayedtracker.v1.ClearMessagesRequest;
import delayedtracker.v1.CloseTrackerRequest;
import delayedtracker.v1.DelayedDeliveryTrackerServiceGrpc.DelayedDeliveryTrackerServiceStub;
import delayedtracker.v1.DeleteTrackerRequest;
import delayedtracker.v1.ExtendLeaseRequest;
import delayedtracker.v1.GetTrackerStatsRequest;
import delayedtracker.v1.GetTrackerStatsResponse;
import delayedtracker.v1.LeaseAck;
import delayedtracker.v1.LedgerMembership;
import delayedtracker.v1.OpenTrackerRequest;
import delayedtracker.v1.PollScheduledMessagesRequest;
import delayedtracker.v1.PollScheduledMessagesResponse;
import delayedtracker.v1.Position;
import delayedtracker.v1.ResetCursorRequest;
import delayedtracker.v1.StreamMembershipRequest;
import delayedtracker.v1.StreamMembershipResponse;
import delayedtracker.v1.TrackerRef;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;
import java.util.function.IntSupplier;
import org.roaringbitmap.RoaringBitmap;

/**
 * The calls of one tracker, with its epoch. Answers come in the sequence of their session, and only in the life of the session in
 * which they were asked for.
 */
final class TrackerCalls {
    private static final long MEMBERSHIP_TIMEOUT_MS = 300_000;

    private final TrackerRef tracker;
    private final ServiceConnection connection;
    private final PluginSettings settings;
    private final Executor sequence;
    private final IntSupplier life;
    private final LongAdder answered = new LongAdder();
    private int address;
    private long epoch;

    /** @param life number of the session's present life, which it has asked from */
    TrackerCalls(String topic, String subscription, ServiceConnection connection, PluginSettings settings, Executor sequence,
            IntSupplier life) {
        this.tracker = TrackerRef.newBuilder().setTopic(topic).setSubscription(subscription).build();
        this.connection = connection;
        this.settings = settings;
        this.sequence = sequence;
        this.life = life;
    }

    /** Returns how many calls were answered, with a result or an error. */
    long answered() {
        return answered.sum();
    }

    /** Returns the epoch of the last opening, clear or reset. */
    long epoch() {
        return epoch;
    }

    /** Returns the address of the service that is called. */
    String address() {
        return connection.address(address);
    }

    /** Has the next address called from now on. */
    void changeAddress() {
        address++;
    }

    void open(String owner, Place markDelete, Runnable done, Consumer<ServiceError> failed) {
        OpenTrackerRequest.Builder request = OpenTrackerRequest.newBuilder().setTracker(tracker).setOwner(owner);
        if (markDelete != null) {
            request.setMarkDelete(position(markDelete));
        }
        stub().openTracker(request.build(), unary(answer -> {
            epoch = answer.getEpoch();
            done.run();
        }, failed));
    }

    void stats(Consumer<GetTrackerStatsResponse> done, Consumer<ServiceError> failed) {
        stub().getTrackerStats(GetTrackerStatsRequest.newBuilder().setTracker(tracker).build(), unary(done, failed));
    }

    /** Asks for all positions that the service tracks. */
    void membership(Consumer<Membership> done, Consumer<ServiceError> failed) {
        Membership tracked = new Membership();
        StreamMembershipRequest request = StreamMembershipRequest.newBuilder().setTracker(tracker).setEpoch(epoch).build();
        stub(MEMBERSHIP_TIMEOUT_MS).streamMembership(request, new Guarded<StreamMembershipResponse>(failed) {
            private IOException malformed;

            @Override
            public void onNext(StreamMembershipResponse part) {
                try {
                    for (LedgerMembership ledger : part.getLedgersList()) {
                        RoaringBitmap entries = new RoaringBitmap();
                        entries.deserialize(ledger.getEntries().asReadOnlyByteBuffer());
                        tracked.addAll(ledger.getLedgerId(), entries);
                    }
                } catch (IOException error) {
                    malformed = error;
                }
            }

            @Override
            public void onCompleted() {
                if (!isAwaited()) {
                    return;
                }
                if (malformed == null) {
                    done.accept(tracked);
                } else {
                    String message = "the service's membership does not decode: " + malformed.getMessage();
                    failed.accept(new ServiceError(ServiceError.Action.REFUSED, "MALFORMED", 0, "", message));
                }
            }
        });
    }

    void add(List<Offer> offers, Consumer<AddMessagesResponse> done, Consumer<ServiceError> failed) {
        AddMessagesRequest.Builder request = AddMessagesRequest.newBuilder().setTracker(tracker).setEpoch(epoch);
        for (Offer offer : offers) {
            request.addDeliverAtMs(offer.deliverAtMs());
            request.addLedgerIds(offer.place().ledgerId()).addEntryIds(offer.place().entryId());
        }
        stub().addMessages(request.build(), unary(done, failed));
    }

    /** @param acknowledgements are sorted by their leases */
    void acknowledge(List<Acknowledgement> acknowledgements, Runnable done, Consumer<ServiceError> failed) {
        acknowledgements.sort(Comparator.comparingLong(Acknowledgement::leaseId));
        AckMessagesRequest.Builder request = AckMessagesRequest.newBuilder().setTracker(tracker).setEpoch(epoch);
        int first = 0;
        for (int i = 0; i < acknowledgements.size(); i++) {
            Acknowledgement each = acknowledgements.get(i);
            request.addLedgerIds(each.place().ledgerId()).addEntryIds(each.place().entryId());
            if (i + 1 == acknowledgements.size() || acknowledgements.get(i + 1).leaseId() != each.leaseId()) {
                request.addLeases(LeaseAck.newBuilder().setLeaseId(each.leaseId()).setPositionCount(i + 1 - first));
                first = i + 1;
            }
        }
        stub().ackMessages(request.build(), unary(answer -> done.run(), failed));
    }

    void cancel(List<Place> places, Runnable done, Consumer<ServiceError> failed) {
        CancelMessagesRequest.Builder request = CancelMessagesRequest.newBuilder().setTracker(tracker).setEpoch(epoch);
        places.forEach(place -> request.addLedgerIds(place.ledgerId()).addEntryIds(place.entryId()));
        stub().cancelMessages(request.build(), unary(answer -> done.run(), failed));
    }

    /** @param done gets the position in force */
    void advanceMarkDelete(Place markDelete, Consumer<Place> done, Consumer<ServiceError> failed) {
        AdvanceMarkDeleteRequest request = AdvanceMarkDeleteRequest.newBuilder()
                .setTracker(tracker).setEpoch(epoch).setMarkDelete(position(markDelete)).build();
        stub().advanceMarkDelete(request, unary(answer -> done.accept(place(answer.getMarkDelete())), failed));
    }

    void clear(Runnable done, Consumer<ServiceError> failed) {
        ClearMessagesRequest request = ClearMessagesRequest.newBuilder().setTracker(tracker).setEpoch(epoch).build();
        stub().clearMessages(request, unary(answer -> {
            epoch = answer.getEpoch();
            done.run();
        }, failed));
    }

    /** Takes the cursor back to a position, and keeps what the service tracks. */
    void resetCursor(Place markDelete, Runnable done, Consumer<ServiceError> failed) {
        ResetCursorRequest request = ResetCursorRequest.newBuilder()
                .setTracker(tracker).setEpoch(epoch).setMarkDelete(position(markDelete)).setKeepIndex(true).build();
        stub().resetCursor(request, unary(answer -> {
            epoch = answer.getEpoch();
            done.run();
        }, failed));
    }

    /** A lease that cannot be extended only costs: its positions are handed out again, and known here. */
    void extend(long lease) {
        ExtendLeaseRequest request = ExtendLeaseRequest.newBuilder()
                .setTracker(tracker).setEpoch(epoch).setLeaseId(lease).setLeaseMs(settings.leaseMs()).build();
        stub().extendLease(request, unary(answer -> { }, error -> { }));
    }

    Poll poll(int messagesMax, Consumer<PollScheduledMessagesResponse> done, Consumer<ServiceError> failed) {
        PollScheduledMessagesRequest request = PollScheduledMessagesRequest.newBuilder()
                .setTracker(tracker).setEpoch(epoch).setMaxMessages(messagesMax)
                .setWaitMs(settings.pollMs()).setLeaseMs(settings.leaseMs()).build();
        Poll poll = new Poll(done, failed);
        stub(settings.pollMs() + settings.callTimeoutMs()).pollScheduledMessages(request, poll);
        return poll;
    }

    /** @param done runs also if the call fails: whoever opens the tracker next is not in the way of one that is left open */
    void close(Runnable done) {
        CloseTrackerRequest request = CloseTrackerRequest.newBuilder().setTracker(tracker).setEpoch(epoch).build();
        stub().closeTracker(request, unary(answer -> done.run(), error -> done.run()));
    }

    void delete(Runnable done, Consumer<ServiceError> failed) {
        DeleteTrackerRequest request = DeleteTrackerRequest.newBuilder().setTracker(tracker).setEpoch(epoch).build();
        stub().deleteTracker(request, unary(answer -> done.run(), failed));
    }

    static Place place(Position position) {
        return new Place(position.getLedgerId(), position.getEntryId());
    }

    private static Position position(Place place) {
        return Position.newBuilder().setLedgerId(place.ledgerId()).setEntryId(place.entryId()).build();
    }

    private DelayedDeliveryTrackerServiceStub stub() {
        return stub(settings.callTimeoutMs());
    }

    private DelayedDeliveryTrackerServiceStub stub(long timeoutMs) {
        return connection.stub(address, sequence).withDeadlineAfter(timeoutMs, TimeUnit.MILLISECONDS);
    }

    private <T> StreamObserver<T> unary(Consumer<T> done, Consumer<ServiceError> failed) {
        return new Guarded<>(failed) {
            private T answer;

            @Override
            public void onNext(T message) {
                answer = message; // an error may follow it, and then the call has failed
            }

            @Override
            public void onCompleted() {
                if (isAwaited()) {
                    finish(answer, done, failed);
                }
            }
        };
    }

    /** Runs one of both for a call that ended well, which a broken peer may do without an answer. */
    private static <T> void finish(T answer, Consumer<T> done, Consumer<ServiceError> failed) {
        if (answer == null) {
            failed.accept(ServiceError.of(Status.INTERNAL.withDescription("the call ended without an answer").asException()));
        } else {
            done.accept(answer);
        }
    }

    /** Counts the answer, and ignores it in another life. */
    private abstract class Guarded<T> implements StreamObserver<T> {
        private final Consumer<ServiceError> failed;
        private final int asked = life.getAsInt();

        Guarded(Consumer<ServiceError> failed) {
            this.failed = failed;
        }

        /** Counts one answer; returns whether the session waits for it. */
        final boolean isAwaited() {
            answered.increment();
            return life.getAsInt() == asked;
        }

        @Override
        public final void onError(Throwable error) {
            if (isAwaited()) {
                failed.accept(ServiceError.of(error));
            }
        }
    }

    /** One poll under way. One that was cancelled is not listened to. */
    final class Poll implements ClientResponseObserver<PollScheduledMessagesRequest, PollScheduledMessagesResponse> {
        private final Consumer<PollScheduledMessagesResponse> done;
        private final Consumer<ServiceError> failed;
        private ClientCallStreamObserver<PollScheduledMessagesRequest> call;
        private PollScheduledMessagesResponse answer;
        private boolean cancelled;

        private Poll(Consumer<PollScheduledMessagesResponse> done, Consumer<ServiceError> failed) {
            this.done = done;
            this.failed = failed;
        }

        void cancel() {
            cancelled = true;
            call.cancel("not needed any more", null);
        }

        @Override
        public void beforeStart(ClientCallStreamObserver<PollScheduledMessagesRequest> started) {
            call = started;
        }

        @Override
        public void onNext(PollScheduledMessagesResponse message) {
            answer = message; // an error may follow it, and then the call has failed
        }

        @Override
        public void onError(Throwable error) {
            answered.increment();
            if (!cancelled) {
                failed.accept(ServiceError.of(error));
            }
        }

        @Override
        public void onCompleted() {
            answered.increment();
            if (!cancelled) {
                finish(answer, done, failed);
            }
        }
    }
}
