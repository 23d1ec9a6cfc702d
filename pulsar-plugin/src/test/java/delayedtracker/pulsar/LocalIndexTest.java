package delayedtracker.pulsar;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import delayedtracker.pulsar.LocalIndex.Acknowledgement;
import delayedtracker.pulsar.LocalIndex.Offer;
import delayedtracker.pulsar.LocalIndex.Place;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;

class LocalIndexTest {
    private static final Place FIRST = new Place(1, 0);
    private static final Place SECOND = new Place(1, 1);

    private static final int ALONE_MAX = 10;

    private final LocalIndex index = new LocalIndex(ALONE_MAX);

    private static Membership membership(Place... places) {
        Membership membership = new Membership();
        for (Place place : places) {
            membership.add(place.ledgerId(), place.entryId());
        }
        return membership;
    }

    private static Offer offer(Place place) {
        return new Offer(place, 100);
    }

    @Test
    void whatIsDueGoesToTheDispatcherOnceAndIsAcknowledged() {
        index.reconcile(membership());
        index.add(1, 0, 100);
        index.confirm(index.unconfirmed(10), index.generation());
        index.handedOut(7, List.of(offer(FIRST)));
        assertEquals(List.of(), index.takeDue(99, 10));
        assertEquals(List.of(FIRST), index.takeDue(100, 10));
        assertEquals(List.of(), index.takeDue(100, 10));
        assertEquals(List.of(new Acknowledgement(FIRST, 7)), index.takeAcknowledgements(10));
        assertEquals(0, index.count());
    }

    @Test
    void whatTheServiceHandsOutAgainAfterALostAcknowledgementIsAcknowledgedAgain() {
        index.reconcile(membership());
        index.handedOut(8, List.of(offer(FIRST)));
        assertEquals(List.of(), index.takeDue(1_000, 10));
        assertEquals(List.of(new Acknowledgement(FIRST, 8)), index.takeAcknowledgements(10));
    }

    @Test
    void whatIsPostponedWaitsHereAndTheServiceIsToldNothing() {
        index.reconcile(membership());
        assertTrue(index.postpone(1, 0, 150));
        assertFalse(index.postpone(1, 0, 160));
        assertFalse(index.hasSomethingToSend());
        assertEquals(0, index.trackedByService());
        assertEquals(List.of(), index.takeDue(149, 10));
        assertEquals(List.of(FIRST), index.takeDue(150, 10));
        assertFalse(index.hasSomethingToSend());
    }

    @Test
    void whatIsPostponedWhileItsCancellationWaitsIsStillCancelled() {
        index.reconcile(membership(FIRST));
        assertTrue(index.deliver(1, 0));
        assertTrue(index.postpone(1, 0, 150));
        assertEquals(List.of(FIRST), index.takeCancellations(10));
        assertEquals(List.of(FIRST), index.takeDue(150, 10));
        assertFalse(index.hasSomethingToSend());
    }

    @Test
    void whatTheServiceRefusesWaitsHere() {
        index.reconcile(membership());
        index.add(1, 0, 100);
        index.refuse(index.unconfirmed(10), index.generation());
        assertEquals(1, index.count());
        assertEquals(0, index.trackedByService());
        assertEquals(List.of(FIRST), index.takeDue(100, 10));
        assertFalse(index.hasSomethingToSend());
    }

    @Test
    void whatTheServiceRefusesCountsUntilItIsTakenOrTracked() {
        index.reconcile(membership());
        for (int entryId = 0; entryId < ALONE_MAX; entryId++) {
            assertFalse(index.isFull());
            index.add(1, entryId, 100 + entryId);
            index.refuse(index.unconfirmed(10), index.generation());
        }
        assertTrue(index.isFull());
        assertFalse(index.hasRoomAgain());
        index.takeDue(100, 10);
        assertFalse(index.isFull());
        // The other nine stay, and are less than the bound.
        assertTrue(index.hasRoomAgain());
        index.add(2, 0, 100);
        assertTrue(index.isFull());
        index.fallBack();
        assertFalse(index.isFull());
        assertTrue(index.hasRoomAgain());
        index.reconcile(membership());
        assertTrue(index.isFull());
        index.confirm(index.unconfirmed(10), index.generation());
        assertFalse(index.isFull());
        for (int entryId = 0; entryId < ALONE_MAX; entryId++) {
            index.add(3, entryId, 100);
        }
        index.refuse(index.unconfirmed(10), index.generation());
        assertTrue(index.isFull());
        index.trim(3, 0);
        assertFalse(index.isFull());
        index.add(4, 0, 100);
        index.refuse(index.unconfirmed(10), index.generation());
        assertTrue(index.isFull());
        index.clear();
        assertFalse(index.isFull());
    }

    @Test
    void whatWasDeliveredBeforeTheServiceAnsweredIsCancelledThere() {
        assertFalse(index.deliver(1, 0));
        index.add(1, 1, 500);
        index.reconcile(membership(FIRST, SECOND));
        assertFalse(index.contains(1, 0));
        assertTrue(index.contains(1, 1));
        assertEquals(List.of(FIRST), index.takeCancellations(10));
    }

    @Test
    void atALaterOpeningWhatIsTrackedHereIsTheTruth() {
        index.reconcile(membership(FIRST));
        index.add(1, 1, 500);
        index.reconcile(membership(SECOND, new Place(9, 9)));
        assertEquals(List.of(new Place(9, 9)), index.takeCancellations(10));
        // The deadline of the first one is known to nobody: the dispatcher reads it again.
        assertEquals(Long.MIN_VALUE, index.nextDeliveryTimeMs());
        assertEquals(List.of(FIRST), index.takeDue(0, 10));
        assertEquals(List.of(new Offer(SECOND, 500)), index.unconfirmed(10));
    }

    @Test
    void aMillionPositionsTooManyTakeLittleMemoryAndAreAllCancelled() {
        int count = 1_000_000;
        Membership tooMany = new Membership();
        for (int i = 0; i < count; i++) {
            tooMany.add(1 + i / 50_000, i % 50_000 * 7L);
        }
        index.reconcile(membership());
        index.reconcile(tooMany);
        assertTrue(index.bytes() < 4 * count, index.bytes() + " bytes");
        assertTrue(index.hasSomethingToSend());
        Membership cancelled = new Membership();
        for (List<Place> batch = index.takeCancellations(1_000); !batch.isEmpty(); batch = index.takeCancellations(1_000)) {
            assertEquals(1_000, batch.size());
            batch.forEach(place -> assertTrue(cancelled.add(place.ledgerId(), place.entryId())));
        }
        assertEquals(count, cancelled.count());
        assertTrue(tooMany.minus(cancelled).isEmpty());
        assertFalse(index.hasSomethingToSend());
    }

    @Test
    void whatWaitsUnderALeaseSurvivesAnOpening() {
        index.reconcile(membership(FIRST));
        index.handedOut(7, List.of(offer(FIRST)));
        index.reconcile(membership(FIRST));
        assertEquals(List.of(), index.leases(10));
        assertEquals(List.of(FIRST), index.takeDue(100, 10));
        assertEquals(List.of(FIRST), index.takeCancellations(10));
    }

    @Test
    void anOfferAfterACancellationIsNotCancelled() {
        index.reconcile(membership(FIRST));
        assertTrue(index.deliver(1, 0));
        assertTrue(index.add(1, 0, 900));
        assertEquals(List.of(), index.takeCancellations(10));
    }

    @Test
    void answersToOffersBeforeAClearChangeNothing() {
        index.reconcile(membership());
        index.add(1, 0, 100);
        long generation = index.generation();
        List<Offer> sent = index.unconfirmed(10);
        index.clear();
        index.add(1, 0, 700);
        index.refuse(sent, generation);
        assertEquals(List.of(new Offer(FIRST, 700)), index.unconfirmed(10));
        assertEquals(0, index.waitingCount());
    }

    @Test
    void withoutTheServiceEverythingWaitsHere() {
        index.reconcile(membership(FIRST));
        index.add(1, 1, 500);
        index.fallBack();
        index.add(1, 2, 600);
        assertEquals(0, index.unconfirmedCount());
        assertEquals(List.of(FIRST), index.takeDue(0, 10)); // read again
        assertEquals(List.of(SECOND, new Place(1, 2)), index.takeDue(600, 10));
        index.add(1, 3, 700);
        index.reconcile(membership(FIRST));
        assertEquals(List.of(FIRST), index.takeCancellations(10));
        assertEquals(List.of(new Offer(new Place(1, 3), 700)), index.unconfirmed(10));
    }

    @Test
    void whatIsKnownToBeDueDoesNotWaitForUnknownDeadlines() {
        withUnknownDeadlines(index, 10);
        index.add(9, 0, 100);
        List<Place> taken = index.takeDue(100, 5);
        assertEquals(5, taken.size());
        assertTrue(taken.contains(new Place(9, 0)), taken.toString());
        assertEquals(4, taken.stream().filter(place -> place.ledgerId() == 1).count());
    }

    @Test
    void unknownDeadlinesDoNotWaitForAllThatIsDue() {
        for (int most : List.of(1, 3, 20)) {
            LocalIndex busy = new LocalIndex(ALONE_MAX);
            withUnknownDeadlines(busy, 10);
            for (int entryId = 0; entryId < 1_000; entryId++) {
                busy.add(9, entryId, 100);
            }
            List<Place> taken = new ArrayList<>();
            while (taken.size() < 40) {
                taken.addAll(busy.takeDue(100, most));
            }
            assertEquals(10, taken.stream().filter(place -> place.ledgerId() == 1).count(), 1);
        }
    }

    @Test
    void unknownDeadlinesWaitWhileTooManyPositionsAreHereAlone() {
        index.reconcile(membership(FIRST, SECOND));
        index.reconcile(membership());
        for (int entryId = 0; entryId < ALONE_MAX; entryId++) {
            index.add(2, entryId, 500);
        }
        assertEquals(500, nextAfterRefusal());
        assertEquals(List.of(), index.takeDue(499, 10));
        // What is due goes on, and makes room.
        assertEquals(1, index.takeDue(500, 1).size());
        assertEquals(Long.MIN_VALUE, index.nextDeliveryTimeMs());
        assertEquals(List.of(FIRST, SECOND), index.takeDue(499, 10));
    }

    private long nextAfterRefusal() {
        index.refuse(index.unconfirmed(ALONE_MAX), index.generation());
        return index.nextDeliveryTimeMs();
    }

    @Test
    void theLeasesOfWhichMostWaitsAreExtended() {
        index.reconcile(membership(FIRST, SECOND, new Place(2, 0), new Place(2, 1)));
        index.handedOut(7, List.of(offer(FIRST)));
        index.handedOut(8, List.of(offer(SECOND), offer(new Place(2, 0))));
        index.handedOut(9, List.of(offer(new Place(2, 1))));
        assertEquals(3, index.leases(10).size());
        assertEquals(List.of(8L), index.leases(1));
    }

    /** So many positions of the first ledger that the service had, and has no more; from then on everything is local. */
    private static void withUnknownDeadlines(LocalIndex index, int count) {
        Membership tracked = new Membership();
        for (int entryId = 0; entryId < count; entryId++) {
            tracked.add(1, entryId);
        }
        index.reconcile(tracked);
        index.fallBack();
    }

    @Test
    void whatTheCursorHasAcknowledgedIsDropped() {
        index.reconcile(membership(FIRST, SECOND, new Place(2, 0)));
        index.handedOut(7, List.of(offer(FIRST)));
        index.add(1, 5, 100);
        assertEquals(2, index.trim(1, 1));
        assertEquals(2, index.count());
        assertEquals(0, index.leasedCount());
        assertEquals(3, index.trim(2, 0) + 1);
    }

    /** A service that loses answers, restarts and hands out twice: each position reaches the dispatcher exactly once. */
    @Test
    void everyPositionIsTakenOnceWhateverIsLost() {
        for (int seed = 0; seed < 1_000; seed++) {
            new History(seed).play();
        }
    }

    private static final class History {
        private final Random random;
        private final LocalIndex index = new LocalIndex(ALONE_MAX);
        private final Map<Place, Long> service = new HashMap<>();
        private final Map<Place, Long> added = new HashMap<>();
        private final Set<Place> taken = new HashSet<>();
        private long nowMs;
        private long leases;
        private boolean open;

        History(int seed) {
            random = new Random(seed);
        }

        void play() {
            for (int step = 0; step < 400; step++) {
                nowMs += random.nextInt(5);
                switch (random.nextInt(8)) {
                    case 0, 1 -> {
                        Place place = new Place(1 + step / 100, step);
                        long deliverAtMs = nowMs + 1 + random.nextInt(200);
                        added.put(place, deliverAtMs);
                        assertTrue(index.add(place.ledgerId(), place.entryId(), deliverAtMs));
                    }
                    case 2 -> send();
                    case 3 -> handOut();
                    case 4 -> take();
                    case 5 -> acknowledge();
                    case 6 -> {
                        if (random.nextInt(10) == 0) {
                            // A service that comes back with less than it had.
                            service.keySet().removeIf(place -> random.nextInt(10) == 0);
                        }
                        index.reconcile(membership(service.keySet().toArray(Place[]::new)));
                        open = true;
                    }
                    default -> {
                        if (random.nextInt(10) == 0) {
                            open = false;
                            index.fallBack();
                        }
                    }
                }
            }
            index.reconcile(membership(service.keySet().toArray(Place[]::new)));
            open = true;
            for (int round = 0; round < 1_000 && taken.size() < added.size(); round++) {
                nowMs += 10;
                send();
                handOut();
                take();
                acknowledge();
            }
            assertEquals(added.keySet(), taken);
            assertEquals(0, index.count());
        }

        private void send() {
            if (!open) {
                return;
            }
            index.takeCancellations(100).forEach(service::remove);
            List<Offer> offers = index.unconfirmed(5);
            if (random.nextInt(5) == 0) {
                offers.forEach(offer -> service.put(offer.place(), offer.deliverAtMs())); // the answer is lost
                return;
            }
            for (Offer offer : offers) {
                if (random.nextInt(5) == 0) {
                    index.refuse(List.of(offer), index.generation());
                } else {
                    service.putIfAbsent(offer.place(), offer.deliverAtMs());
                    index.confirm(List.of(offer), index.generation());
                }
            }
        }

        private void handOut() {
            if (!open) {
                return;
            }
            List<Offer> due = service.entrySet().stream().filter(each -> each.getValue() <= nowMs + 20)
                    .map(each -> new Offer(each.getKey(), each.getValue())).toList();
            index.handedOut(++leases, due);
        }

        private void take() {
            for (Place place : index.takeDue(nowMs, 3)) {
                // As the dispatcher does: it reads the entry, and asks again.
                if (added.get(place) > nowMs) {
                    index.add(place.ledgerId(), place.entryId(), added.get(place));
                } else {
                    index.deliver(place.ledgerId(), place.entryId());
                    assertTrue(taken.add(place), place + " twice");
                }
            }
        }

        private void acknowledge() {
            if (!open) {
                return;
            }
            for (Acknowledgement each : index.takeAcknowledgements(100)) {
                if (random.nextInt(5) != 0) {
                    service.remove(each.place());
                }
            }
        }
    }
}
