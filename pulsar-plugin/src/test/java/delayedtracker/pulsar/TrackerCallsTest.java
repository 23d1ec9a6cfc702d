package delayedtracker.pulsar;

import static delayedtracker.pulsar.FakeService.comesTrue;
import static delayedtracker.pulsar.FakeService.settings;
import static delayedtracker.pulsar.FakeService.unanswered;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.util.concurrent.MoreExecutors;
import delayedtracker.pulsar.LocalIndex.Offer;
import delayedtracker.pulsar.LocalIndex.Place;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class TrackerCallsTest {
    private final FakeService service = new FakeService();
    private final ServiceConnection connection = new ServiceConnection(settings(service));
    private final Executor sequence = MoreExecutors.newSequentialExecutor(connection.threads());
    private final TrackerCalls calls = new TrackerCalls("topic", "worker", connection, settings(service), sequence, () -> 0);
    private final List<String> ran = new CopyOnWriteArrayList<>();

    TrackerCallsTest() throws IOException {}

    @AfterEach
    void close() {
        connection.close();
        service.close();
    }

    private void add() {
        calls.add(List.of(new Offer(new Place(1, 0), 100)), answer -> ran.add("done"), error -> ran.add(error.reason()));
    }

    /** Returns what ran, and gives what must not run a moment. */
    private List<String> ranUntilNow() throws InterruptedException {
        assertTrue(comesTrue(() -> !ran.isEmpty()));
        Thread.sleep(200);
        return ran;
    }

    @Test
    void aCallThatSucceedsIsDoneOnce() throws InterruptedException {
        add();
        assertEquals(List.of("done"), ranUntilNow());
        assertEquals(1, calls.answered());
    }

    @Test
    void aCallThatFailsBehindItsAnswerHasFailed() throws InterruptedException {
        service.answersBeforeErrors = true;
        service.addError = unanswered();
        add();
        assertEquals(List.of("UNAVAILABLE"), ranUntilNow());
        assertEquals(1, calls.answered());
    }

    @Test
    void aPollThatFailsBehindItsAnswerHasFailed() throws InterruptedException {
        service.answersBeforeErrors = true;
        service.pollError = unanswered();
        calls.poll(10, answer -> ran.add("done"), error -> ran.add(error.reason()));
        assertEquals(List.of("UNAVAILABLE"), ranUntilNow());
        assertEquals(1, calls.answered());
    }
}
