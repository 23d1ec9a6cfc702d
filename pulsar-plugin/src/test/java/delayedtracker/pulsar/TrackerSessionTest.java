package delayedtracker.pulsar;

import static delayedtracker.pulsar.FakeService.comesTrue;
import static delayedtracker.pulsar.FakeService.error;
import static delayedtracker.pulsar.FakeService.settings;
import static delayedtracker.pulsar.FakeService.unanswered;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import delayedtracker.pulsar.LocalIndex.Place;
import delayedtracker.pulsar.TrackerSession.Ownership;
import io.grpc.Status;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class TrackerSessionTest {
    private final FakeService first = new FakeService();
    private final FakeService second = new FakeService();
    private final ServiceConnection connection = new ServiceConnection(settings(first, second));
    private final LocalIndex index = new LocalIndex(10_000);
    private final TrackerSession session = new TrackerSession(
            "topic", "worker", "a broker", settings(first, second), connection, index, new FakeBroker());
    private volatile Ownership ownership = Ownership.OURS;

    TrackerSessionTest() throws IOException {}

    @AfterEach
    void close() {
        connection.close();
        first.close();
        second.close();
    }

    private final class FakeBroker implements TrackerSession.Broker {
        @Override
        public Place markDelete() {
            return null;
        }

        @Override
        public CompletableFuture<Ownership> ownership() {
            return CompletableFuture.completedFuture(ownership);
        }

        @Override
        public void wake() {}

        @Override
        public long patienceMs() {
            return 100;
        }

        @Override
        public void opened() {}
    }

    private void open() throws InterruptedException {
        session.start();
        assertTrue(comesTrue(session::isReady));
    }

    private void add() {
        index.add(1, 0, Long.MAX_VALUE);
        session.offered();
    }

    @Test
    void whatOneAddressDoesNotAnswerGoesToTheNext() throws InterruptedException {
        first.addError = unanswered();
        open();
        add();
        assertTrue(comesTrue(() -> second.adds.get() == 1 && index.unconfirmedCount() == 0));
        assertEquals(1, first.opens.get());
    }

    @Test
    void pollsGoToTheNextAddressWithoutAnythingToSend() throws InterruptedException {
        first.pollError = unanswered();
        open();
        assertTrue(comesTrue(() -> second.opens.get() == 1 && session.isReady()));
    }

    @Test
    void anOpeningThatTakesLongIsAskedForAgainAtTheSameInstance() throws InterruptedException {
        // A recovery there goes on meanwhile; another instance would fence it.
        first.openError = Status.DEADLINE_EXCEEDED.asRuntimeException();
        open();
        assertEquals(2, first.opens.get());
        assertEquals(0, second.opens.get());
    }

    @Test
    void anOpeningThatNobodyAnswersIsTriedAtTheNextInstance() throws InterruptedException {
        first.openError = unanswered();
        open();
        assertEquals(1, first.opens.get());
        assertEquals(1, second.opens.get());
    }

    @Test
    void anAddressThatAnswersWithAnErrorIsCalledAgain() throws InterruptedException {
        first.addError = error(Status.Code.UNAVAILABLE, "STORAGE_UNAVAILABLE");
        open();
        add();
        assertTrue(comesTrue(() -> first.adds.get() == 5));
        assertEquals(0, second.opens.get());
    }

    @Test
    void aTrackerThatWasOpenedAtAnotherInstanceIsLeftToTheOwnerOfTheTopic() throws InterruptedException {
        first.addError = error(Status.Code.ABORTED, "SNAPSHOT_CONFLICT");
        open();
        ownership = Ownership.ELSEWHERE;
        add();
        assertTrue(comesTrue(() -> !session.isReady()));
        Thread.sleep(500);
        assertEquals(1, first.opens.get() + second.opens.get());
    }

    @Test
    void theOwnerOfTheTopicOpensTheTrackerAgainWhereverItWasOpened() throws InterruptedException {
        first.openError = error(Status.Code.ABORTED, "SNAPSHOT_CONFLICT");
        open();
        assertEquals(2, first.opens.get());
        assertEquals(0, second.opens.get());
    }
}
