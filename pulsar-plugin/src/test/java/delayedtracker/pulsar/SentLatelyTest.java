package delayedtracker.pulsar;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class SentLatelyTest {
    private static final long START_NS = Long.MAX_VALUE - 5; // System.nanoTime may overflow

    private final SentLately sent = new SentLately();

    @Test
    void aMessageIsRepeatedOnceWithinASecond() {
        assertFalse(sent.isRepeated(1, 2, START_NS));
        assertFalse(sent.isRepeated(1, 3, START_NS));
        assertTrue(sent.isRepeated(1, 2, START_NS + SentLately.WINDOW_NS - 1));
        assertFalse(sent.isRepeated(1, 2, START_NS + SentLately.WINDOW_NS - 1));
    }

    @Test
    void aMessageThatComesBackLaterIsNoRepetition() {
        assertFalse(sent.isRepeated(1, 2, START_NS));
        assertFalse(sent.isRepeated(1, 2, START_NS + SentLately.WINDOW_NS));
        assertEquals(1, sent.count());
    }

    @Test
    void theOldestIsForgottenAtTheBound() {
        for (int entry = 0; entry <= SentLately.PLACES_MAX; entry++) {
            assertFalse(sent.isRepeated(1, entry, START_NS));
        }
        assertEquals(SentLately.PLACES_MAX, sent.count());
        assertFalse(sent.isRepeated(1, 0, START_NS));
        assertTrue(sent.isRepeated(1, SentLately.PLACES_MAX, START_NS));
    }
}
