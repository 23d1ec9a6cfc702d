package delayedtracker.pulsar;

import delayedtracker.pulsar.LocalIndex.Place;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;

/** A set of positions, as one bitmap of entry ids for each ledger. Not thread-safe. */
final class Membership {
    /** Receives positions, ascending. */
    @FunctionalInterface
    interface PositionConsumer {
        void accept(long ledgerId, long entryId);
    }

    private final NavigableMap<Long, RoaringBitmap> ledgers = new TreeMap<>();
    private long count;

    /** Returns the number of positions. */
    long count() {
        return count;
    }

    boolean isEmpty() {
        return count == 0;
    }

    boolean contains(long ledgerId, long entryId) {
        RoaringBitmap entries = ledgers.get(ledgerId);
        return entries != null && entries.contains((int) entryId);
    }

    /** Adds a position, and returns whether it is new. */
    boolean add(long ledgerId, long entryId) {
        boolean isNew = ledgers.computeIfAbsent(ledgerId, id -> new RoaringBitmap()).checkedAdd((int) entryId);
        count += isNew ? 1 : 0;
        return isNew;
    }

    /** Removes a position, and returns whether it was there. */
    boolean remove(long ledgerId, long entryId) {
        RoaringBitmap entries = ledgers.get(ledgerId);
        if (entries == null || !entries.checkedRemove((int) entryId)) {
            return false;
        }
        count--;
        if (entries.isEmpty()) {
            ledgers.remove(ledgerId);
        }
        return true;
    }

    /** Adds all entries of a bitmap, which the caller gives up. */
    void addAll(long ledgerId, RoaringBitmap entries) {
        if (entries.isEmpty()) {
            return;
        }
        RoaringBitmap kept = ledgers.get(ledgerId);
        if (kept == null) {
            count += entries.getLongCardinality();
            ledgers.put(ledgerId, entries);
            return;
        }
        long before = kept.getLongCardinality();
        kept.or(entries);
        count += kept.getLongCardinality() - before;
    }

    void addAll(Membership other) {
        other.ledgers.forEach((ledgerId, entries) -> addAll(ledgerId, entries.clone()));
    }

    /** Returns the positions that are here and not in the other one. */
    Membership minus(Membership other) {
        Membership rest = new Membership();
        ledgers.forEach((ledgerId, entries) -> {
            RoaringBitmap theirs = other.ledgers.get(ledgerId);
            rest.addAll(ledgerId, theirs == null ? entries.clone() : RoaringBitmap.andNot(entries, theirs));
        });
        return rest;
    }

    /** Removes everything up to and including a position, and returns how much that was. */
    long removeThrough(long ledgerId, long entryId) {
        Map<Long, RoaringBitmap> below = ledgers.headMap(ledgerId, false);
        long removed = 0;
        for (RoaringBitmap entries : below.values()) {
            removed += entries.getLongCardinality();
        }
        below.clear();
        RoaringBitmap entries = ledgers.get(ledgerId);
        if (entries != null && entryId >= 0) {
            long before = entries.getLongCardinality();
            entries.remove(0L, Math.min(entryId, 0xFFFFFFFFL) + 1);
            removed += before - entries.getLongCardinality();
            if (entries.isEmpty()) {
                ledgers.remove(ledgerId);
            }
        }
        count -= removed;
        return removed;
    }

    /** Removes the lowest position of a set that is not empty, and returns it. */
    Place takeFirst() {
        Map.Entry<Long, RoaringBitmap> first = ledgers.firstEntry();
        Place place = new Place(first.getKey(), Integer.toUnsignedLong(first.getValue().first()));
        remove(place.ledgerId(), place.entryId());
        return place;
    }

    void forEach(PositionConsumer consumer) {
        ledgers.forEach((ledgerId, entries) -> {
            PeekableIntIterator each = entries.getIntIterator();
            while (each.hasNext()) {
                consumer.accept(ledgerId, Integer.toUnsignedLong(each.next()));
            }
        });
    }

    void forEachLedger(BiConsumer<Long, RoaringBitmap> consumer) {
        ledgers.forEach(consumer);
    }

    void clear() {
        ledgers.clear();
        count = 0;
    }

    /** Returns about how much memory the bitmaps take. */
    long bytes() {
        return ledgers.values().stream().mapToLong(entries -> entries.getLongSizeInBytes() + 64).sum();
    }
}
