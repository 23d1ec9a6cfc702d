package delayedtracker.pulsar;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.util.Durations;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;

/**
 * What an error of the service means for a tracker of the plugin.
 *
 * @param action what to do
 * @param reason the service's stable reason, or the status code where it gave none
 * @param retryAfterMs what the service asks for; 0 if it does not
 * @param owner the new owner of a tracker that was fenced; empty if unknown
 * @param message one sentence for the log
 */
record ServiceError(Action action, String reason, long retryAfterMs, String owner, String message) {
    /** What the caller does about an error. */
    enum Action {
        /** Repeat the call after a pause. */
        RETRY,
        /** Repeat the call with fewer positions. */
        SMALLER,
        /** Open the tracker again. */
        REOPEN,
        /** Another owner has opened the tracker. */
        FENCED,
        /** Repeating does not help until somebody changes a configuration: try seldom, and say so. */
        REFUSED
    }

    /** Returns whether nobody listens there, or the connection broke: such an error is gRPC's own, without a reason. */
    boolean isUnreachable() {
        return reason.equals(Status.Code.UNAVAILABLE.name());
    }

    /** Returns whether the service did not answer in time, or is unreachable. */
    boolean isUnanswered() {
        return isUnreachable() || reason.equals(Status.Code.DEADLINE_EXCEEDED.name());
    }

    static ServiceError of(Throwable error) {
        Status status = Status.fromThrowable(error);
        String reason = status.getCode().name();
        String owner = "";
        long retryAfterMs = 0;
        com.google.rpc.Status details = StatusProto.fromThrowable(error);
        for (Any detail : details == null ? java.util.List.<Any>of() : details.getDetailsList()) {
            try {
                if (detail.is(ErrorInfo.class)) {
                    ErrorInfo info = detail.unpack(ErrorInfo.class);
                    reason = info.getReason();
                    owner = info.getMetadataOrDefault("owner", "");
                } else if (detail.is(RetryInfo.class)) {
                    retryAfterMs = Durations.toMillis(detail.unpack(RetryInfo.class).getRetryDelay());
                }
            } catch (InvalidProtocolBufferException malformed) {
                // The code alone says enough.
                retryAfterMs = 0;
            }
        }
        String message = reason + ": " + status.getDescription();
        return new ServiceError(action(status.getCode(), reason), reason, retryAfterMs, owner, message);
    }

    private static Action action(Status.Code code, String reason) {
        return switch (reason) {
            // The second is how an instance of the service learns that another one has opened the tracker.
            case "FENCED", "SNAPSHOT_CONFLICT" -> Action.FENCED;
            case "BATCH_TOO_LARGE" -> Action.SMALLER;
            case "TRACKER_NOT_OPEN", "TRACKER_BROKEN", "CLOSED", "CLEARED" -> Action.REOPEN;
            default -> switch (code) {
                case UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, CANCELLED, ABORTED -> Action.RETRY;
                default -> Action.REFUSED;
            };
        };
    }
}
