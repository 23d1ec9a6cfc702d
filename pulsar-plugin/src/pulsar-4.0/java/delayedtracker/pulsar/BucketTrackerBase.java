package delayedtracker.pulsar;

import java.util.concurrent.CompletableFuture;
import org.apache.pulsar.broker.delayed.bucket.BucketDelayedDeliveryTracker;
import org.apache.pulsar.broker.delayed.bucket.RecoverDelayedDeliveryTrackerException;
import org.apache.pulsar.broker.service.persistent.AbstractPersistentDispatcherMultipleConsumers;

/** Pulsar's tracker with buckets, of which nothing is used: it is made without timer, storage, and a look at any bucket. */
abstract class BucketTrackerBase extends BucketDelayedDeliveryTracker {
    BucketTrackerBase(AbstractPersistentDispatcherMultipleConsumers dispatcher, long tickTimeMillis, boolean isStrict)
            throws RecoverDelayedDeliveryTrackerException {
        super(dispatcher, null, tickTimeMillis, isStrict, new HiddenBuckets(), Long.MAX_VALUE, 1, 1, -1);
    }

    /** Closes the tracker without waiting; brokers of this line call {@link #close()}. */
    abstract CompletableFuture<Void> closeAsync();

    /** Frees the memory outside of the heap that the tracker with buckets has taken. */
    final void releaseQueues() {
        super.close();
    }
}
