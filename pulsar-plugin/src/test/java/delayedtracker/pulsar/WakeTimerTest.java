package delayedtracker.pulsar;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class WakeTimerTest {
    private static final long HOUR_MS = 3_600_000;

    private final AtomicLong wallMs = new AtomicLong(100 * HOUR_MS);
    private final Semaphore wakings = new Semaphore(0);
    private final ScheduledExecutorService threads = Executors.newScheduledThreadPool(1);
    private final WakeTimer timer = new WakeTimer(threads, wallMs::get, 100, wakings::release);

    @AfterEach
    void end() {
        threads.shutdownNow();
    }

    private boolean isWoken(long withinMs) throws InterruptedException {
        return wakings.tryAcquire(withinMs, TimeUnit.MILLISECONDS);
    }

    @Test
    void aClockThatIsSetBackAfterAWakingDelaysNoOther() throws InterruptedException {
        timer.set(wallMs.get(), true);
        assertTrue(isWoken(30_000));
        wallMs.addAndGet(-HOUR_MS);
        timer.set(wallMs.get() + 50, false);
        assertTrue(isWoken(30_000));
    }

    @Test
    void aClockThatIsSetForwardMakesTheTimerEarlier() throws InterruptedException {
        long nextMs = wallMs.get() + HOUR_MS;
        timer.set(nextMs, false);
        wallMs.addAndGet(HOUR_MS);
        timer.set(nextMs, true); // as at each tick
        assertTrue(isWoken(30_000));
    }

    @Test
    void whatIsDueWaitsForTheRestOfThePause() {
        assertEquals(90, WakeTimer.delayMs(0, 90));
        assertEquals(500, WakeTimer.delayMs(500, 90));
        assertEquals(0, WakeTimer.delayMs(-5, -1_000));
    }

    @Test
    void aClosedTimerWakesNobody() throws InterruptedException {
        timer.set(wallMs.get() + 50, false);
        timer.close();
        timer.set(wallMs.get(), true);
        assertFalse(isWoken(200));
    }
}
