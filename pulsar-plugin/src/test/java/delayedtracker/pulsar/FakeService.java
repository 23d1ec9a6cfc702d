package delayedtracker.pulsar;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import delayedtracker.v1.AddMessagesRequest;
import delayedtracker.v1.AddMessagesResponse;
import delayedtracker.v1.DelayedDeliveryTrackerServiceGrpc.DelayedDeliveryTrackerServiceImplBase;
import delayedtracker.v1.DeleteTrackerRequest;
import delayedtracker.v1.DeleteTrackerResponse;
import delayedtracker.v1.GetTrackerStatsRequest;
import delayedtracker.v1.GetTrackerStatsResponse;
import delayedtracker.v1.OpenTrackerRequest;
import delayedtracker.v1.OpenTrackerResponse;
import delayedtracker.v1.PollScheduledMessagesRequest;
import delayedtracker.v1.PollScheduledMessagesResponse;
import delayedtracker.v1.StreamMembershipRequest;
import delayedtracker.v1.StreamMembershipResponse;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;

/** A service on a port of this machine that tracks nothing, and fails as it is told. Its polls wait for ever. */
final class FakeService extends DelayedDeliveryTrackerServiceImplBase implements AutoCloseable {
    final AtomicInteger opens = new AtomicInteger();
    final AtomicInteger adds = new AtomicInteger();
    final AtomicInteger deletes = new AtomicInteger();
    volatile StatusRuntimeException openError;
    volatile StatusRuntimeException addError;
    volatile StatusRuntimeException pollError;
    volatile StatusRuntimeException deleteError;
    /** Whether a call that fails sends one before the error. */
    volatile boolean answersBeforeErrors;

    private final Server server;

    FakeService() throws IOException {
        server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create()).addService(this).build().start();
    }

    String address() {
        return "127.0.0.1:" + server.getPort();
    }

    @Override
    public void close() {
        server.shutdownNow();
    }

    /** Makes an error as gRPC does by itself, without a reason. */
    static StatusRuntimeException unanswered() {
        return Status.UNAVAILABLE.withDescription("nobody is there").asRuntimeException();
    }

    /** Makes an error as the service answers it. */
    static StatusRuntimeException error(Status.Code code, String reason) {
        return StatusProto.toStatusRuntimeException(com.google.rpc.Status.newBuilder().setCode(code.value())
                .addDetails(Any.pack(ErrorInfo.newBuilder().setReason(reason).setDomain("delayed-tracker").build())).build());
    }

    /** Makes settings for these services, in this order. */
    static PluginSettings settings(FakeService... services) {
        Properties properties = new Properties();
        properties.setProperty("delayedTrackerServiceAddresses",
                Arrays.stream(services).map(FakeService::address).collect(Collectors.joining(",")));
        return PluginSettings.of(properties);
    }

    /** Waits up to ten seconds; returns whether it came true. */
    static boolean comesTrue(BooleanSupplier condition) throws InterruptedException {
        for (int i = 0; i < 1_000 && !condition.getAsBoolean(); i++) {
            Thread.sleep(10);
        }
        return condition.getAsBoolean();
    }

    @Override
    public void openTracker(OpenTrackerRequest request, StreamObserver<OpenTrackerResponse> observer) {
        int epoch = opens.incrementAndGet();
        finish(OpenTrackerResponse.newBuilder().setEpoch(epoch).build(), openError, observer);
        openError = null;
    }

    @Override
    public void getTrackerStats(GetTrackerStatsRequest request, StreamObserver<GetTrackerStatsResponse> observer) {
        finish(GetTrackerStatsResponse.getDefaultInstance(), null, observer);
    }

    @Override
    public void streamMembership(StreamMembershipRequest request, StreamObserver<StreamMembershipResponse> observer) {
        observer.onCompleted();
    }

    @Override
    public void addMessages(AddMessagesRequest request, StreamObserver<AddMessagesResponse> observer) {
        adds.incrementAndGet();
        finish(AddMessagesResponse.getDefaultInstance(), addError, observer);
    }

    @Override
    public void deleteTracker(DeleteTrackerRequest request, StreamObserver<DeleteTrackerResponse> observer) {
        deletes.incrementAndGet();
        finish(DeleteTrackerResponse.getDefaultInstance(), deleteError, observer);
    }

    @Override
    public void pollScheduledMessages(
            PollScheduledMessagesRequest request, StreamObserver<PollScheduledMessagesResponse> observer) {
        if (pollError != null) {
            finish(PollScheduledMessagesResponse.getDefaultInstance(), pollError, observer);
        }
    }

    private <T> void finish(T answer, StatusRuntimeException error, StreamObserver<T> observer) {
        if (error == null || answersBeforeErrors) {
            observer.onNext(answer);
        }
        if (error == null) {
            observer.onCompleted();
        } else {
            observer.onError(error);
        }
    }
}
