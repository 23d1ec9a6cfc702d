package delayedtracker.pulsar;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableSet;
import java.util.TreeSet;

/**
 * What one tracker knows inside the broker: which positions are tracked, which of them wait here until they are due, and what
 * the service has still to be told. Nothing here waits for anything; time is an argument.
 *
 * <p>The broker's threads and those of the connection share it. Each method holds the lock of the object, and calls nothing
 * outside of it meanwhile.
 */
final class LocalIndex {
    /** The place of an entry, ordered as in a topic. */
    record Place(long ledgerId, long entryId) implements Comparable<Place> {
        private static final Comparator<Place> ORDER =
                Comparator.comparingLong(Place::ledgerId).thenComparingLong(Place::entryId);

        @Override
        public int compareTo(Place other) {
            return ORDER.compare(this, other);
        }
    }

    /** A position and its deadline. */
    record Offer(Place place, long deliverAtMs) {}

    /** A position and the lease under which the service handed it out. */
    record Acknowledgement(Place place, long leaseId) {}

    /** Whether the service tracks a position that waits here, and under which lease. */
    private enum Held { LEASED, TRACKED, UNTRACKED }

    /** A position that waits here until the broker's clock calls it due. */
    private record Waiting(long deliverAtMs, Place place, Held held, long leaseId) {
        private static final Comparator<Waiting> ORDER =
                Comparator.comparingLong(Waiting::deliverAtMs).thenComparing(Waiting::place);
    }

    /** One of so many positions that the dispatcher takes has an unknown deadline, as long as there are both kinds. */
    private static final int UNKNOWN_ONE_OF = 4;

    /** So many positions may be here alone, unconfirmed or refused. */
    private final int aloneMax;
    /** Positions that are in nobody's hands but the trackers': what the dispatcher skips when it reads. */
    private final Membership members = new Membership();
    private final NavigableSet<Waiting> waiting = new TreeSet<>(Waiting.ORDER);
    private final Map<Place, Waiting> waitingByPlace = new HashMap<>();
    private int leasedCount;
    private int untrackedCount;
    /** Tracked positions whose deadline nobody knows any more: the dispatcher reads them again. */
    private final Membership unknownDeadlines = new Membership();
    /** Counts what the dispatcher has taken: who asks for one at a time gets both kinds, too. */
    private long takenCount;
    private final LinkedHashMap<Place, Long> unconfirmed = new LinkedHashMap<>();
    private final ArrayDeque<Acknowledgement> acknowledgements = new ArrayDeque<>();
    /** What the service has to forget, which may be millions after an import into it. */
    private final Membership cancellations = new Membership();
    /** Positions that went to the dispatcher before the service, or Pulsar's buckets, said what they track. */
    private final Membership delivered = new Membership();
    private Place lastOffered;
    private boolean filled;
    private boolean importing;
    private boolean local;
    private long generation;
    private long version;
    private long refusals;

    LocalIndex(int aloneMax) {
        this.aloneMax = aloneMax;
    }

    /**
     * Tracks a position.
     *
     * @return whether it is new; the caller has the offers sent
     */
    synchronized boolean add(long ledgerId, long entryId, long deliverAtMs) {
        version++;
        if (!members.add(ledgerId, entryId)) {
            return false;
        }
        Place place = new Place(ledgerId, entryId);
        delivered.remove(ledgerId, entryId);
        // What is still to be sent about it is about its life before.
        cancellations.remove(ledgerId, entryId);
        if (local) {
            putWaiting(new Waiting(deliverAtMs, place, Held.UNTRACKED, 0));
        } else {
            offer(place, deliverAtMs);
        }
        return true;
    }

    /**
     * Tracks a position here alone for a short time: the service is not told.
     *
     * @return whether it is new
     */
    synchronized boolean postpone(long ledgerId, long entryId, long untilMs) {
        version++;
        if (!members.add(ledgerId, entryId)) {
            return false;
        }
        putWaiting(new Waiting(untilMs, new Place(ledgerId, entryId), Held.UNTRACKED, 0));
        return true;
    }

    /** Tracks a position of a bucket of Pulsar's, unless the dispatcher has had it already. */
    synchronized void addImported(long ledgerId, long entryId, long deliverAtMs) {
        if (!delivered.contains(ledgerId, entryId)) {
            add(ledgerId, entryId, deliverAtMs);
        }
    }

    /** Tells whether buckets of Pulsar's are being imported. */
    synchronized void setImporting(boolean importing) {
        this.importing = importing;
        if (!importing && filled) {
            delivered.clear();
        }
    }

    /** Returns the last offer that was added; null if there was none. */
    synchronized Place lastOffered() {
        return lastOffered;
    }

    synchronized boolean isUnconfirmed(Place place) {
        return unconfirmed.containsKey(place);
    }

    synchronized boolean contains(long ledgerId, long entryId) {
        return members.contains(ledgerId, entryId);
    }

    /**
     * Notes that the dispatcher delivers a delayed message itself, because it is due.
     *
     * @return whether the service has to be told
     */
    synchronized boolean deliver(long ledgerId, long entryId) {
        version++;
        if (!filled || importing) {
            delivered.add(ledgerId, entryId);
        }
        if (!members.remove(ledgerId, entryId)) {
            return false;
        }
        Place place = new Place(ledgerId, entryId);
        unknownDeadlines.remove(ledgerId, entryId);
        Waiting waits = removeWaiting(place);
        release(place, waits == null ? Held.TRACKED : waits.held(), waits == null ? 0 : waits.leaseId());
        return true;
    }

    /** Returns when the next position that waits here is due: Long.MIN_VALUE at once, Long.MAX_VALUE if none waits. */
    synchronized long nextDeliveryTimeMs() {
        if (mayTakeUnknown()) {
            return Long.MIN_VALUE;
        }
        return waiting.isEmpty() ? Long.MAX_VALUE : waiting.first().deliverAtMs();
    }

    /** Takes positions that are due at the cut-off time; they are the dispatcher's from now on. */
    synchronized List<Place> takeDue(long cutoffMs, int most) {
        version++;
        List<Place> taken = new ArrayList<>();
        while (taken.size() < most) {
            boolean isDue = !waiting.isEmpty() && waiting.first().deliverAtMs() <= cutoffMs;
            boolean isTurnOfUnknown = !isDue || takenCount % UNKNOWN_ONE_OF == UNKNOWN_ONE_OF - 1;
            if (isTurnOfUnknown && mayTakeUnknown()) {
                taken.add(takeUnknown());
            } else if (isDue) {
                taken.add(takeFirstWaiting());
            } else {
                break;
            }
            takenCount++;
        }
        if (!filled || importing) {
            taken.forEach(place -> delivered.add(place.ledgerId(), place.entryId()));
        }
        return taken;
    }

    /** Takes what the service has handed out; positions that are not tracked here are acknowledged. */
    synchronized void handedOut(long leaseId, List<Offer> offers) {
        version++;
        for (Offer offer : offers) {
            Place place = offer.place();
            if (!members.contains(place.ledgerId(), place.entryId())) {
                acknowledgements.add(new Acknowledgement(place, leaseId));
                continue;
            }
            unknownDeadlines.remove(place.ledgerId(), place.entryId());
            putWaiting(new Waiting(offer.deliverAtMs(), place, Held.LEASED, leaseId));
        }
    }

    /** Returns the first offers that the service has not confirmed, up to so many. */
    synchronized List<Offer> unconfirmed(int most) {
        List<Offer> first = new ArrayList<>(Math.min(most, unconfirmed.size()));
        for (Map.Entry<Place, Long> offer : unconfirmed.entrySet()) {
            if (first.size() == most) {
                break;
            }
            first.add(new Offer(offer.getKey(), offer.getValue()));
        }
        return first;
    }

    /** Notes that the service tracks these durably. Those that were delivered meanwhile are among the cancellations. */
    synchronized void confirm(List<Offer> offers, long ofGeneration) {
        version++;
        if (ofGeneration != generation) {
            return;
        }
        for (Offer offer : offers) {
            unconfirmed.remove(offer.place());
        }
    }

    /** Notes that the service does not track these, as due by its clock or too far away: they wait here. */
    synchronized void refuse(List<Offer> offers, long ofGeneration) {
        version++;
        if (ofGeneration != generation) {
            return;
        }
        for (Offer offer : offers) {
            Place place = offer.place();
            unconfirmed.remove(place);
            refusals++;
            if (members.contains(place.ledgerId(), place.entryId()) && !waitingByPlace.containsKey(place)) {
                putWaiting(new Waiting(offer.deliverAtMs(), place, Held.UNTRACKED, 0));
            }
        }
    }

    synchronized List<Acknowledgement> takeAcknowledgements(int most) {
        version++;
        List<Acknowledgement> first = new ArrayList<>();
        while (first.size() < most && !acknowledgements.isEmpty()) {
            first.add(acknowledgements.remove());
        }
        return first;
    }

    synchronized List<Place> takeCancellations(int most) {
        version++;
        List<Place> first = new ArrayList<>();
        while (first.size() < most && !cancellations.isEmpty()) {
            first.add(cancellations.takeFirst());
        }
        return first;
    }

    /** Drops what the cursor has acknowledged, up to and including a position; returns how many were tracked. */
    synchronized long trim(long ledgerId, long entryId) {
        version++;
        Place last = new Place(ledgerId, entryId);
        unknownDeadlines.removeThrough(ledgerId, entryId);
        waitingByPlace.keySet().stream().filter(place -> place.compareTo(last) <= 0).toList().forEach(this::removeWaiting);
        unconfirmed.keySet().removeIf(place -> place.compareTo(last) <= 0);
        return members.removeThrough(ledgerId, entryId);
    }

    /** Forgets everything. */
    synchronized void clear() {
        version++;
        members.clear();
        waiting.clear();
        waitingByPlace.clear();
        leasedCount = 0;
        untrackedCount = 0;
        unknownDeadlines.clear();
        unconfirmed.clear();
        acknowledgements.clear();
        cancellations.clear();
        delivered.clear();
        generation++;
    }

    /**
     * Takes what the service tracks after an opening, nothing of it leased.
     *
     * <p>The first time that is added to what is tracked here. Later, what is tracked here is the truth: what the service has
     * besides is cancelled, and what it has lost is offered again or, without a deadline, read again.
     *
     * @param tracked positions of the service; given up by the caller
     */
    synchronized void reconcile(Membership tracked) {
        version++;
        acknowledgements.clear();
        cancellations.clear();
        if (filled) {
            cancellations.addAll(tracked.minus(members));
            Membership lost = members.minus(tracked);
            lost.forEach((ledgerId, entryId) -> {
                Place place = new Place(ledgerId, entryId);
                if (!unconfirmed.containsKey(place) && !waitingByPlace.containsKey(place)) {
                    unknownDeadlines.add(ledgerId, entryId);
                }
            });
        } else {
            delivered.forEach((ledgerId, entryId) -> {
                if (tracked.remove(ledgerId, entryId)) {
                    cancellations.add(ledgerId, entryId);
                }
            });
            if (!importing) {
                delivered.clear();
            }
            tracked.forEachLedger((ledgerId, entries) -> members.addAll(ledgerId, entries.clone()));
            filled = true;
        }
        for (Waiting waits : List.copyOf(waiting)) {
            Place place = waits.place();
            removeWaiting(place);
            if (tracked.contains(place.ledgerId(), place.entryId())) {
                putWaiting(new Waiting(waits.deliverAtMs(), place, Held.TRACKED, 0));
            } else {
                offer(place, waits.deliverAtMs());
            }
        }
        Membership again = unknownDeadlines.minus(tracked);
        unknownDeadlines.clear();
        unknownDeadlines.addAll(again);
        local = false;
    }

    /** Keeps everything here from now on, until the next {@link #reconcile}, as Pulsar's tracker in memory does. */
    synchronized void fallBack() {
        version++;
        local = true;
        for (Map.Entry<Place, Long> offer : unconfirmed.entrySet()) {
            putWaiting(new Waiting(offer.getValue(), offer.getKey(), Held.UNTRACKED, 0));
        }
        unconfirmed.clear();
        members.forEach((ledgerId, entryId) -> {
            if (!waitingByPlace.containsKey(new Place(ledgerId, entryId))) {
                unknownDeadlines.add(ledgerId, entryId);
            }
        });
    }

    /** Returns the leases of which most positions wait here, so many at most. */
    synchronized List<Long> leases(int most) {
        Map<Long, Integer> counts = new HashMap<>();
        waiting.stream().filter(each -> each.held() == Held.LEASED).forEach(each -> counts.merge(each.leaseId(), 1, Integer::sum));
        return counts.entrySet().stream().sorted(Map.Entry.<Long, Integer>comparingByValue().reversed())
                .limit(most).map(Map.Entry::getKey).toList();
    }

    synchronized boolean isLocal() {
        return local;
    }

    synchronized long generation() {
        return generation;
    }

    synchronized long count() {
        return members.count();
    }

    /** Returns how many positions the service must have, once it knows all that was to be sent. */
    synchronized long trackedByService() {
        return members.count() - untrackedCount - unknownDeadlines.count();
    }

    /** Returns a number that is another one after each change. */
    synchronized long version() {
        return version;
    }

    synchronized int waitingCount() {
        return waiting.size();
    }

    /** Returns how many positions wait here under a lease. */
    synchronized int leasedCount() {
        return leasedCount;
    }

    synchronized int unconfirmedCount() {
        return unconfirmed.size();
    }

    /** Returns whether so many positions are here alone, unconfirmed or refused; never while everything is kept here. */
    synchronized boolean isFull() {
        return !local && unconfirmed.size() + untrackedCount >= aloneMax;
    }

    /** Returns whether the service has confirmed enough after that: half of what may wait beside the refused ones. */
    synchronized boolean hasRoomAgain() {
        // Refused positions may stay for long: a bound that counted them twice would not be left again.
        return local || unconfirmed.size() * 2L < aloneMax - untrackedCount;
    }

    synchronized boolean hasSomethingToSend() {
        return !unconfirmed.isEmpty() || !acknowledgements.isEmpty() || !cancellations.isEmpty();
    }

    /** Returns how many offers the service has refused. */
    synchronized long refusals() {
        return refusals;
    }

    /** Returns about how much memory this takes. */
    synchronized long bytes() {
        return members.bytes() + unknownDeadlines.bytes() + 200L * waiting.size() + 120L * unconfirmed.size()
                + 64L * acknowledgements.size() + cancellations.bytes();
    }

    /** Returns whether a position without a deadline may be taken: once it was read again, it is here alone. */
    private boolean mayTakeUnknown() {
        return !unknownDeadlines.isEmpty() && !isFull();
    }

    private Place takeUnknown() {
        Place place = unknownDeadlines.takeFirst();
        members.remove(place.ledgerId(), place.entryId());
        return place;
    }

    private Place takeFirstWaiting() {
        Waiting first = removeWaiting(waiting.first().place());
        members.remove(first.place().ledgerId(), first.place().entryId());
        release(first.place(), first.held(), first.leaseId());
        return first.place();
    }

    private void offer(Place place, long deliverAtMs) {
        unconfirmed.put(place, deliverAtMs);
        lastOffered = place;
    }

    /** Notes what the service has to be told of a position that is the dispatcher's now. */
    private void release(Place place, Held held, long leaseId) {
        // An offer that is on its way may be tracked already.
        boolean offered = unconfirmed.remove(place) != null;
        if (held == Held.LEASED) {
            acknowledgements.add(new Acknowledgement(place, leaseId));
        } else if (held == Held.TRACKED || offered) {
            cancellations.add(place.ledgerId(), place.entryId());
        }
    }

    private void putWaiting(Waiting waits) {
        removeWaiting(waits.place());
        waiting.add(waits);
        waitingByPlace.put(waits.place(), waits);
        leasedCount += waits.held() == Held.LEASED ? 1 : 0;
        untrackedCount += waits.held() == Held.UNTRACKED ? 1 : 0;
    }

    private Waiting removeWaiting(Place place) {
        Waiting waits = waitingByPlace.remove(place);
        if (waits != null) {
            waiting.remove(waits);
            leasedCount -= waits.held() == Held.LEASED ? 1 : 0;
            untrackedCount -= waits.held() == Held.UNTRACKED ? 1 : 0;
        }
        return waits;
    }
}
