"""Contract of an add log, as checks that the author of a backend can run.

One call runs them all::

    async def test_contract(tmp_path):
        await check_add_log(lambda name: MyAddLog(tmp_path / name))

To see each check by its name, parametrise a test over ``LOG_CHECKS``. Every check opens its own logs.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from delayed_tracker.core.values.columns import INT63_MAX
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.add_log import AddLog, LogAppend, LogExtent, LoggedRecord, LogPage, require_log_id
from delayed_tracker.storage.errors import SnapshotConflict, StorageInUse, StorageUnavailable
from delayed_tracker.storage.testing.contract_catalogue import ODD_NAMES
from delayed_tracker.storage.testing.contract_tools import ContractViolation, expect, require_equal

LogFactory = Callable[[str], AddLog]
"""Returns the log of a name, not started: the same name has the same content, a new name is empty."""

LogCheck = Callable[[LogFactory], Awaitable[None]]
"""Returns, or raises ContractViolation."""

_BYTES_MAX: Final = 1 << 40


@contextlib.asynccontextmanager
async def _started(factory: LogFactory, name: str) -> AsyncIterator[AddLog]:
    log = factory(name)
    await log.start()
    try:
        yield log
    finally:
        await log.close()


def _part(
    first_number: int, *records: bytes, topic: str = "topic", cursor: str = "cursor", epoch: int = 1
) -> LogAppend:
    return LogAppend(topic, cursor, epoch, first_number, records)


async def _append(log: AddLog, *parts: LogAppend, writer: str = "writer") -> None:
    require_equal(await log.append(parts, writer=writer), [], "refused trackers")


async def _require_content(
    log: AddLog,
    first_number: int,
    records: Sequence[bytes],
    *,
    after: int = 0,
    topic: str = "topic",
    cursor: str = "cursor",
) -> None:
    """Require that a read of everything above a number returns exactly these records."""
    page = await log.read(topic, cursor, after=after, bytes_max=_BYTES_MAX)
    numbered = tuple(LoggedRecord(number, record) for number, record in enumerate(records, first_number))
    require_equal(page, LogPage(numbered, (), is_last=True), f"records of {topic!r}, {cursor!r} after {after}")


async def an_unknown_tracker_has_no_records(factory: LogFactory) -> None:
    """An unknown tracker reads as empty, and reading or cutting it does not record it."""
    async with _started(factory, "unknown") as log:
        await _require_content(log, 1, [])
        await log.cut([("topic", "cursor", 5)])
        require_equal(await log.extents(), [], "extents")
        await _append(log, _part(9, b"nine"))
        await _require_content(log, 9, [b"nine"])


async def records_come_back_in_order(factory: LogFactory) -> None:
    """Records are returned under their numbers, whichever appends they came with."""
    async with _started(factory, "order") as log:
        await _append(log, _part(1, b"1", b"22", b"333"))
        await _append(log, _part(4, b"4"))
        await _append(log, _part(5, b"5", b"6"))
        everything = [b"1", b"22", b"333", b"4", b"5", b"6"]
        for after in range(7):
            await _require_content(log, after + 1, everything[after:], after=after)
        await _require_content(log, 7, [], after=INT63_MAX)
        require_equal(await log.extents(), [LogExtent("topic", "cursor", 1, 6, 9)], "extents")


async def everything_survives_closing(factory: LogFactory) -> None:
    """The effect of every operation that returned is there when the log is opened again."""
    async with _started(factory, "reopen") as log:
        await _append(log, _part(1, b"one", b"two"), _part(1, b"other", cursor="b", epoch=4))
        await log.take_over("topic", "c", epoch=3, writer="writer")
        await log.cut([("topic", "cursor", 1)])
    async with _started(factory, "reopen") as log:
        await _require_content(log, 2, [b"two"], after=1)
        await _require_content(log, 1, [b"other"], cursor="b")
        refused = await log.append([_part(1, b"late", cursor="c", epoch=2)], writer="writer")
        require_equal(refused, [("topic", "c")], "refused trackers")
        require_equal(
            await log.append([_part(2, b"x", cursor="b", epoch=4)], writer="else"), [("topic", "b")], "refused"
        )


async def numbers_outlive_the_records(factory: LogFactory) -> None:
    """After a cut of everything the numbers go on, also in a log that was opened again."""
    async with _started(factory, "numbers") as log:
        await _append(log, _part(1, b"1", b"2", b"3"))
        for through in (3, 3, 2, 99):
            await log.cut([("topic", "cursor", through)])
            await _require_content(log, 4, [])
            require_equal(await log.extents(), [], "extents")
    async with _started(factory, "numbers") as log:
        extent = await log.take_over("topic", "cursor", epoch=2, writer="writer")
        require_equal(extent, LogExtent("topic", "cursor", 2, 3, 0), "extent")
        await _append(log, _part(2, b"2", b"3", epoch=2))
        await _require_content(log, 4, [])
        with expect(InvalidInput, "an append that leaves out number 4"):
            await log.append([_part(5, b"5", epoch=2)], writer="writer")
        await _append(log, _part(4, b"4", epoch=2))
        await _require_content(log, 4, [b"4"])


async def a_repeated_part_is_stored_once(factory: LogFactory) -> None:
    """Numbers on record are skipped: the whole part, or its beginning; the first content stays."""
    async with _started(factory, "repeat") as log:
        for _ in range(3):
            await _append(log, _part(1, b"1", b"2"))
        await _append(log, _part(2, b"another", b"3", b"4"))
        await _append(log, _part(1, b"1", b"2", b"3"))
        await _require_content(log, 1, [b"1", b"2", b"3", b"4"])
        require_equal(await log.extents(), [LogExtent("topic", "cursor", 1, 4, 4)], "extents")


async def a_gap_is_refused_as_a_whole(factory: LogFactory) -> None:
    """A part above the next number of a known tracker is invalid, and nothing of its commit is applied."""
    async with _started(factory, "gap") as log:
        await _append(log, _part(1, b"1"))
        await log.take_over("topic", "taken", epoch=1, writer="writer")
        for gap in (_part(3, b"3", epoch=2), _part(2, b"2", cursor="taken")):
            with expect(InvalidInput, "an append with a gap"):
                await log.append([_part(1, b"x", cursor="before"), gap, _part(1, b"x", cursor="z")], writer="writer")
        require_equal(await log.extents(), [LogExtent("topic", "cursor", 1, 1, 1)], "extents")
        require_equal(
            await log.take_over("topic", "before", epoch=1, writer="other"),
            LogExtent("topic", "before", 1, 0, 0),
            "extent of a tracker whose part came with the gap",
        )
    async with _started(factory, "gap-in-many") as log:
        await _append(log, *(_part(1, b"1", cursor=f"{number}") for number in range(100)))
        with expect(InvalidInput, "an append of many trackers with a gap"):
            await log.append(
                [_part(2 + number // 99, b"x", cursor=f"{number}") for number in range(100)], writer="writer"
            )
        require_equal({extent.last_number for extent in await log.extents()}, {1}, "last numbers")


async def an_older_epoch_is_refused_alone(factory: LogFactory) -> None:
    """A fenced tracker gets nothing, the others of the commit are stored; the owner may go on and take over again."""
    async with _started(factory, "epochs") as log:
        await _append(log, *(_part(1, b"1", cursor=cursor, epoch=3) for cursor in "abc"))
        for _ in range(2):
            extent = await log.take_over("topic", "b", epoch=4, writer="next")
            require_equal(extent, LogExtent("topic", "b", 4, 1, 1), "extent")
            page = await log.read("topic", "b", after=0, bytes_max=100)
            require_equal(extent.page or page, page, "records in the answer to taking over")
        refused = await log.append([_part(2, b"2", cursor=cursor, epoch=3) for cursor in "abc"], writer="writer")
        require_equal(refused, [("topic", "b")], "refused trackers")
        for cursor, content in (("a", [b"1", b"2"]), ("b", [b"1"]), ("c", [b"1", b"2"])):
            await _require_content(log, 1, content, cursor=cursor)
        # A fenced writer is told so, even if its numbers do not fit either.
        require_equal(
            await log.append([_part(99, b"99", cursor="b", epoch=3)], writer="writer"),
            [("topic", "b")],
            "refused trackers",
        )
        await _append(log, _part(2, b"next", cursor="b", epoch=4), writer="next")
        await _require_content(log, 1, [b"1", b"next"], cursor="b")
        with expect(SnapshotConflict, "a take-over with an older epoch"):
            await log.take_over("topic", "b", epoch=3, writer="writer")
        # An append under a newer epoch fences as a take-over does.
        await _append(log, _part(3, b"newest", cursor="b", epoch=5), writer="newest")
        refused = await log.append([_part(4, b"late", cursor="b", epoch=4)], writer="next")
        require_equal(refused, [("topic", "b")], "refused trackers")


async def an_epoch_belongs_to_one_writer(factory: LogFactory) -> None:
    """The writer that records an epoch owns it; an anonymous one conflicts with none and does not take it over."""
    async with _started(factory, "writers") as log:
        await log.take_over("topic", "cursor", epoch=3, writer="first")
        with expect(SnapshotConflict, "a take-over at an epoch that another writer has"):
            await log.take_over("topic", "cursor", epoch=3, writer="second")
        refused = await log.append([_part(1, b"1", epoch=3), _part(1, b"1", cursor="b", epoch=3)], writer="second")
        require_equal(refused, [("topic", "cursor")], "refused trackers")
        await _append(log, _part(1, b"1", epoch=3), writer="")
        require_equal(await log.append([_part(2, b"2", epoch=3)], writer="second"), [("topic", "cursor")], "refused")
        await _append(log, _part(2, b"2", epoch=3), writer="first")
        await _require_content(log, 1, [b"1", b"2"])
        await _require_content(log, 1, [b"1"], cursor="b")


async def a_page_is_bounded_by_bytes(factory: LogFactory) -> None:
    """A page ends before the record that would exceed its bytes, but has at least one; pages join without a gap."""
    records = [b"%d" % number * (1 + number % 7) for number in range(1, 200)]
    async with _started(factory, "pages") as log:
        for start in range(0, len(records), 10):
            await _append(log, _part(start + 1, *records[start : start + 10]))
        for bytes_max in (1, 2, 30, 1_000, _BYTES_MAX):
            found: list[LoggedRecord] = []
            is_last = False
            while not is_last:
                page = await log.read("topic", "cursor", after=len(found), bytes_max=bytes_max)
                size = sum(len(logged.record) for logged in page.records)
                if not page.records or page.corrupt or (len(page.records) > 1 and size > bytes_max):
                    raise ContractViolation(f"a page of {bytes_max} bytes: {len(page.records)} records of {size} bytes")
                found += page.records
                is_last = page.is_last
            expected = [LoggedRecord(number, record) for number, record in enumerate(records, 1)]
            require_equal(found, expected, f"pages of {bytes_max} bytes")


async def one_commit_has_many_trackers(factory: LogFactory) -> None:
    """Each tracker of a commit keeps its own records, also if commits run concurrently or one tracker is refused."""
    count = 200
    names = [(f"topic-{number % 7}", f"cursor-{number}") for number in range(count)]
    async with _started(factory, "many") as log:
        parts = [_part(1, b"%d" % n, b"-", topic=topic, cursor=cursor) for n, (topic, cursor) in enumerate(names)]
        await _append(log, *parts)
        more = [_part(3, b"%d more" % n, topic=topic, cursor=cursor) for n, (topic, cursor) in enumerate(names)]
        await asyncio.gather(*(_append(log, *more[start : start + 20]) for start in range(0, count, 20)))
        require_equal(
            [(each.topic, each.cursor) for each in await log.extents()], sorted(names), "trackers of the extents"
        )
        *others, fenced = names
        await log.take_over(*fenced, epoch=2, writer="next")
        last = [_part(4, b"%d last" % n, topic=topic, cursor=cursor) for n, (topic, cursor) in enumerate(names)]
        for _ in range(2):
            require_equal(await log.append(last, writer="writer"), [fenced], "refused trackers")
        await _append(log, *last[:-1])
        for n, (topic, cursor) in enumerate(others):
            content = [b"%d" % n, b"-", b"%d more" % n, b"%d last" % n]
            await _require_content(log, 1, content, topic=topic, cursor=cursor)
        n = len(others)
        await _require_content(log, 1, [b"%d" % n, b"-", b"%d more" % n], topic=fenced[0], cursor=fenced[1])


async def records_have_any_size(factory: LogFactory) -> None:
    """Empty records, records of megabytes and everything between come back as they were, in one part or in several."""
    sizes = (0, 1, 3 << 20, 0, 4_096, 1 << 20, 100, (1 << 20) - 1, 0)
    records = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    async with _started(factory, "sizes") as log:
        await _append(log, _part(1, *records))
        for number, record in enumerate(records, len(records) + 1):
            await _append(log, _part(number, record))
        await _require_content(log, 1, records * 2)
        require_equal(await log.extents(), [LogExtent("topic", "cursor", 1, 18, 2 * sum(sizes))], "extents")
        if await log.size_bytes() < 2 * sum(sizes):
            raise ContractViolation("the log takes fewer bytes than its records have")


async def a_cut_removes_a_prefix(factory: LogFactory) -> None:
    """Records up to the number are gone and the others stay, wherever the number lies in its commit."""
    records = [b"%d" % number for number in range(10, 40)]
    async with _started(factory, "cut") as log:
        for start in range(0, 30, 10):
            await _append(
                log, _part(start + 1, *records[start : start + 10]), _part(start + 1, *records[:10], cursor="b")
            )
        for through in (1, 1, 9, 10, 11, 5, 25, 29):
            await log.cut([("topic", "cursor", through), ("topic", "unknown", 3)])
            cut_through = max(through, 11) if through == 5 else through
            await _require_content(log, cut_through + 1, records[cut_through:])
            await _require_content(log, 30, records[29:], after=29)
            kept_bytes = sum(map(len, records[cut_through:]))
            extent = next(each for each in await log.extents() if each.cursor == "cursor")
            if not kept_bytes <= extent.record_bytes <= 60:
                raise ContractViolation(f"cut through {through}: {kept_bytes} bytes are kept, the extent is {extent}")
            require_equal(extent.last_number, 30, "last number")
        await _require_content(log, 1, records[:10] * 3, cursor="b")
        await _append(log, _part(31, b"31"))
        await _require_content(log, 30, [*records[29:], b"31"])


async def any_name_is_a_name(factory: LogFactory) -> None:
    """Topics and cursors are any text: spaces, slashes, percent signs, any script, long ones."""
    names = [(name, name[::-1]) for name in ODD_NAMES]
    async with _started(factory, "names") as log:
        await _append(log, *(_part(1, topic.encode(), topic=topic, cursor=cursor) for topic, cursor in names))
        await log.take_over(*names[0], epoch=2, writer="writer")
        for topic, cursor in names:
            await _require_content(log, 1, [topic.encode()], topic=topic, cursor=cursor)
        require_equal(
            [(each.topic, each.cursor) for each in await log.extents()], sorted(names), "trackers of the extents"
        )
        await log.cut([(*name, 1) for name in names])
        require_equal(await log.extents(), [], "extents")


async def malformed_input_is_refused_as_a_whole(factory: LogFactory) -> None:
    """Every value out of its range is invalid, and nothing of the call is applied."""
    good = _part(1, b"x", cursor="good")
    async with _started(factory, "malformed") as log:
        for bad in (_part(0, b"x"), _part(INT63_MAX, b"x", b"y"), _part(1), _part(1, b"x", epoch=0), good):
            with expect(InvalidInput, f"an append of {bad}"):
                await log.append([good, bad], writer="writer")
        with expect(InvalidInput, "a take-over with epoch 0"):
            await log.take_over("topic", "cursor", epoch=0, writer="writer")
        with expect(InvalidInput, "a cut through a negative number"):
            await log.cut([("topic", "cursor", -1)])
        for after, bytes_max in ((-1, 1), (0, 0)):
            with expect(InvalidInput, f"a read after {after} of {bytes_max} bytes"):
                await log.read("topic", "cursor", after=after, bytes_max=bytes_max)
        require_equal(await log.extents(), [], "extents")
        require_equal(await log.append([], writer="writer"), [], "refused trackers of no parts")


async def an_id_belongs_to_its_content(factory: LogFactory) -> None:
    """A log has one id, whatever is written and however often it is started; another log has another one."""
    async with _started(factory, "identity") as log:
        first = await log.log_id()
        require_log_id(first)
        await _append(log, _part(1, b"record"))
        require_equal(await log.log_id(), first, "id after an append")
    async with _started(factory, "identity") as log:
        require_equal(await log.log_id(), first, "id after closing")
    async with _started(factory, "identity-of-another") as other:
        if await other.log_id() == first:
            raise ContractViolation(f"another log has the same id, {first!r}")


async def a_log_has_one_opener(factory: LogFactory) -> None:
    """A second opener is refused while the first has the log open, and the first goes on."""
    async with _started(factory, "openers") as log:
        with expect(StorageInUse, "a second opener"):
            await factory("openers").start()
        await _append(log, _part(1, b"1"))
    async with _started(factory, "openers") as log:
        await _require_content(log, 1, [b"1"])


async def a_log_that_is_not_open_says_so(factory: LogFactory) -> None:
    """Before start and after close every operation raises StorageUnavailable; closing twice is harmless."""
    log = factory("closed")
    await _expect_unavailable(log)
    await log.start()
    await log.close()
    await log.close()
    await _expect_unavailable(log)


async def _expect_unavailable(log: AddLog) -> None:
    operations: dict[str, Callable[[], Awaitable[object]]] = {
        "append": lambda: log.append([_part(1, b"1")], writer="writer"),
        "take_over": lambda: log.take_over("topic", "cursor", epoch=1, writer="writer"),
        "read": lambda: log.read("topic", "cursor", after=0, bytes_max=1),
        "cut": lambda: log.cut([("topic", "cursor", 1)]),
        "extents": log.extents,
        "size_bytes": log.size_bytes,
        "log_id": log.log_id,
    }
    for name, operation in operations.items():
        with expect(StorageUnavailable, f"{name} of a log that is not open"):
            await operation()


LOG_CHECKS: Final[tuple[LogCheck, ...]] = (
    an_unknown_tracker_has_no_records,
    records_come_back_in_order,
    everything_survives_closing,
    numbers_outlive_the_records,
    a_repeated_part_is_stored_once,
    a_gap_is_refused_as_a_whole,
    an_older_epoch_is_refused_alone,
    an_epoch_belongs_to_one_writer,
    a_page_is_bounded_by_bytes,
    one_commit_has_many_trackers,
    records_have_any_size,
    a_cut_removes_a_prefix,
    any_name_is_a_name,
    malformed_input_is_refused_as_a_whole,
    an_id_belongs_to_its_content,
    a_log_has_one_opener,
    a_log_that_is_not_open_says_so,
)
"""Every check: an async function that takes the factory and is named after its requirement."""


async def check_add_log(factory: LogFactory) -> None:
    """Run every check, one after the other.

    Raises:
        ContractViolation: by the first check that fails; the message begins with its name.
    """
    for check in LOG_CHECKS:
        try:
            await check(factory)
        except ContractViolation as violation:
            raise ContractViolation(f"{check.__name__}: {violation}") from violation
