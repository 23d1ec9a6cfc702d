package delayedtracker.pulsar;

import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * Wakes the dispatcher when a position is due, but ten times a tick at most: dispatchers that are woken while they send deliver
 * twice now and then, with Pulsar's own trackers too.
 *
 * <p>Deadlines are times of the wall clock, which may be set back or forward at any time. So the pause since the last waking is
 * measured by a clock that nobody sets, and a timer that has become too late is set again by the next {@link #set}.
 */
final class WakeTimer {
    private final ScheduledExecutorService threads;
    private final LongSupplier wallMs;
    private final long pauseMs;
    private final Runnable wake;
    private ScheduledFuture<?> timer;
    private long timerAtMs;
    private long wokenAtNs;
    private boolean closed;

    /**
     * Makes a timer that is not set.
     *
     * @param wallMs the broker's clock, in milliseconds
     * @param pauseMs the shortest time between two wakings
     */
    WakeTimer(ScheduledExecutorService threads, LongSupplier wallMs, long pauseMs, Runnable wake) {
        this.threads = threads;
        this.wallMs = wallMs;
        this.pauseMs = pauseMs;
        this.wake = wake;
        this.wokenAtNs = System.nanoTime() - TimeUnit.MILLISECONDS.toNanos(pauseMs);
    }

    /**
     * Sets the timer to the deadline of what is due next.
     *
     * @param due whether it is due already by the tracker's cut-off time
     */
    synchronized void set(long nextMs, boolean due) {
        if (closed) {
            return;
        }
        long wokenAgoMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - wokenAtNs);
        long delayMs = delayMs(due ? 0 : nextMs - wallMs.getAsLong(), pauseMs - wokenAgoMs);
        boolean isSet = timer != null && !timer.isDone();
        // Corrections of the wall clock shift the delay a little all the time, which is no reason to set the timer anew.
        if (isSet && timerAtMs == nextMs && timer.getDelay(TimeUnit.MILLISECONDS) <= delayMs + pauseMs) {
            return;
        }
        cancel();
        timerAtMs = nextMs;
        timer = threads.schedule(this::timeHasCome, delayMs, TimeUnit.MILLISECONDS);
    }

    /** Ends the timer: it wakes nobody any more. */
    synchronized void close() {
        closed = true;
        cancel();
    }

    /** Returns the delay that is over when something is due, and when the pause since the last waking is over. */
    static long delayMs(long untilDueMs, long untilPauseEndsMs) {
        return Math.max(0, Math.max(untilDueMs, untilPauseEndsMs));
    }

    private void cancel() {
        if (timer != null) {
            timer.cancel(false);
        }
    }

    private void timeHasCome() {
        synchronized (this) {
            if (closed) {
                return;
            }
            wokenAtNs = System.nanoTime();
        }
        wake.run();
    }
}
