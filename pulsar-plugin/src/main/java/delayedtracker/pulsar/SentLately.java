package delayedtracker.pulsar;

import delayedtracker.pulsar.LocalIndex.Place;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * Messages that the dispatcher has sent within the last second, the last {@value #PLACES_MAX} of them.
 *
 * <p>A broker takes an acknowledged message from its consumer first, and marks it in the cursor a moment later. A dispatcher that
 * reads the message again in between finds it with nobody, as one that came back. This is what makes it look once more.
 *
 * <p>Used under the dispatcher's lock; time is an argument.
 */
final class SentLately {
    static final long WINDOW_NS = TimeUnit.SECONDS.toNanos(1);
    static final int PLACES_MAX = 10_000;

    private final Map<Place, Long> sentAtNs = new LinkedHashMap<>();

    /**
     * Notes that a message is about to be sent, unless it was sent within the last second: that is forgotten then, so that the
     * next question notes it again.
     *
     * @return whether it was sent within the last second
     */
    boolean isRepeated(long ledgerId, long entryId, long nowNs) {
        for (Iterator<Long> each = sentAtNs.values().iterator(); each.hasNext() && nowNs - each.next() >= WINDOW_NS;) {
            each.remove();
        }
        Place place = new Place(ledgerId, entryId);
        if (sentAtNs.remove(place) != null) {
            return true;
        }
        sentAtNs.put(place, nowNs);
        if (sentAtNs.size() > PLACES_MAX) {
            sentAtNs.remove(sentAtNs.keySet().iterator().next());
        }
        return false;
    }

    /** Returns how many messages are known, for tests and bounds. */
    int count() {
        return sentAtNs.size();
    }
}
