import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import delayedtracker.snapshot.v1.DelayedIndex;
import delayedtracker.snapshot.v1.SnapshotSegment;
import delayedtracker.v1.AckMessagesRequest;
import delayedtracker.v1.AddMessagesRequest;
import delayedtracker.v1.DelayedDeliveryTrackerServiceGrpc;
import delayedtracker.v1.LedgerServiceGrpc;
import delayedtracker.v1.OpenTrackerRequest;
import delayedtracker.v1.PollScheduledMessagesRequest;
import delayedtracker.v1.Position;
import delayedtracker.v1.SeekByTimeRequest;
import delayedtracker.v1.TrackerRef;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A dispatcher in Java, with the stubs that protoc makes of our proto files: Dispatcher HOST:PORT */
public final class Dispatcher {
  /** Long enough that a message is not due before it comes. */
  private static final long DELAY_MS = 5_000;

  /** Prints a line for each thing it was answered. */
  public static void main(String[] arguments) throws Exception {
    ManagedChannel channel = ManagedChannelBuilder.forTarget(arguments[0]).usePlaintext().build();
    try {
      dispatch(channel);
      askLedgers(channel);
    } finally {
      channel.shutdownNow().awaitTermination(10, TimeUnit.SECONDS);
    }
  }

  private static void dispatch(ManagedChannel channel) throws InvalidProtocolBufferException {
    var service = DelayedDeliveryTrackerServiceGrpc.newBlockingStub(channel).withDeadlineAfter(30, TimeUnit.SECONDS);
    var tracker =
        TrackerRef.newBuilder().setTopic("persistent://shop/orders/events").setSubscription("in Java").build();
    var markDelete = Position.newBuilder().setLedgerId(1).setEntryId(-1);
    var opened =
        service.openTracker(
            OpenTrackerRequest.newBuilder().setTracker(tracker).setOwner("Java").setMarkDelete(markDelete).build());
    long deadline = System.currentTimeMillis() + DELAY_MS;
    // The type of a column is that of the single value: nothing is converted.
    long ledger = opened.getReplayFrom().getLedgerId();
    long entry = opened.getReplayFrom().getEntryId();
    var added =
        service.addMessages(
            AddMessagesRequest.newBuilder()
                .setTracker(tracker)
                .setEpoch(opened.getEpoch())
                .addAllDeliverAtMs(List.of(deadline, deadline))
                .addAllLedgerIds(List.of(ledger, Long.MAX_VALUE))
                .addAllEntryIds(List.of(entry, (1L << 32) - 1))
                .build());
    System.out.println("added " + added.getAddedCount());
    var due =
        service.pollScheduledMessages(
            PollScheduledMessagesRequest.newBuilder()
                .setTracker(tracker)
                .setEpoch(opened.getEpoch())
                .setMaxMessages(10)
                .setWaitMs(20_000)
                .build());
    for (int row = 0; row < due.getLedgerIdsCount(); row++) {
      System.out.println("due " + due.getLedgerIds(row) + ":" + due.getEntryIds(row));
    }
    var acked =
        service.ackMessages(
            AckMessagesRequest.newBuilder()
                .setTracker(tracker)
                .setEpoch(opened.getEpoch())
                .setLeaseId(due.getLeaseId())
                .addAllLedgerIds(due.getLedgerIdsList())
                .addAllEntryIds(due.getEntryIdsList())
                .build());
    System.out.println("acked " + acked.getAckedCount());
    var negative =
        AddMessagesRequest.newBuilder()
            .setTracker(tracker)
            .setEpoch(opened.getEpoch())
            .addDeliverAtMs(deadline)
            .addLedgerIds(-1)
            .addEntryIds(0)
            .build();
    System.out.println("refused " + reasonOf(() -> service.addMessages(negative)));
    var index = DelayedIndex.newBuilder().setTimestamp(1).setLedgerId(2).setEntryId(3);
    var stored = SnapshotSegment.newBuilder().addIndexes(index).build().toByteArray();
    System.out.println("stored " + HexFormat.of().formatHex(stored));
  }

  private static void askLedgers(ManagedChannel channel) throws InvalidProtocolBufferException {
    var service = LedgerServiceGrpc.newBlockingStub(channel).withDeadlineAfter(30, TimeUnit.SECONDS);
    var request = SeekByTimeRequest.newBuilder().setTopic("t").setTimestampMs(1).build();
    System.out.println("refused " + reasonOf(() -> service.seekByTime(request)));
  }

  private static String reasonOf(Runnable call) throws InvalidProtocolBufferException {
    try {
      call.run();
    } catch (StatusRuntimeException refused) {
      for (var detail : StatusProto.fromThrowable(refused).getDetailsList()) {
        if (detail.is(ErrorInfo.class)) {
          var info = detail.unpack(ErrorInfo.class);
          var field = info.getMetadataOrDefault("field", "");
          return refused.getStatus().getCode() + " " + info.getReason() + " " + field;
        }
      }
    }
    return "without a reason";
  }
}
