"""Adds positions on an event loop: one by one through a buffer, in batches that share calls, or as a stream."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable

import grpc

from delayed_tracker.client.aio.add_buffer import AddBuffer
from delayed_tracker.client.aio.calls import Calls, StreamCall, is_cancelled, stop_at_end
from delayed_tracker.client.aio.shared_adds import SharedAdds
from delayed_tracker.client.model.answers import AddAnswer, AddResult
from delayed_tracker.client.model.bounds import require_type
from delayed_tracker.client.model.settings import ClientSettings
from delayed_tracker.client.queues.add_queue import perhaps_sent
from delayed_tracker.client.queues.add_stream import AddStream, IndexBatch, StreamRoom
from delayed_tracker.client.rules.session import Claim, SessionRules
from delayed_tracker.wire.columns import pack_indexes


class Adds:
    """Adds of one session. It does not refer to the session, which is freed when the program drops it."""

    def __init__(self, calls: Calls, rules: SessionRules) -> None:
        self._calls = calls
        self._rules = rules
        settings = calls.settings
        shared = self._shared = SharedAdds(
            lambda columns, count, claim: calls.perform(rules.add_packed(columns, count, claim)),
            batch_max=lambda: rules.batch_max,
        )
        self._buffer = AddBuffer(
            lambda *columns: shared.add(pack_indexes(*columns), len(columns[0])),
            flush_count=settings.flush_count,
            flush_delay_s=settings.flush_delay_s,
            buffer_max=settings.buffer_max,
        )

    def warn_when_dropped(self, session: object) -> None:
        """Warn if a session is dropped while adds are buffered."""
        self._buffer.warn_when_dropped(session)

    async def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int) -> AddResult:
        """Add one position through the buffer."""
        pack_indexes([deliver_at_ms], [ledger_id], [entry_id])
        return await self._buffer.add(deliver_at_ms, ledger_id, entry_id)

    async def add_packed(self, columns: tuple[bytes, bytes, bytes], count: int, claim: Claim | None) -> AddAnswer:
        """Add a batch; batches that arrive while two calls are in flight share the next."""
        return await self._shared.add(columns, count, claim)

    async def stream(self, batches: AsyncIterable[IndexBatch]) -> AsyncGenerator[AddAnswer, None]:
        """Send batches over one stream; a task sends while the caller reads the answers."""
        require_type("batches", batches, AsyncIterable, "give an asynchronous iterable, such as an async generator")
        stream = self._rules.add_stream()
        call = self._calls.add_stream()
        sending = _Sending(call, stream, self._calls.settings)
        sender = asyncio.create_task(sending.send(batches))
        sender.add_done_callback(sending.cut_off)
        stop_at_end(sender, call)
        try:
            async for response in call:
                answers = stream.answered(response)
                sending.notify()
                for answer in answers:
                    sending.release()
                    yield answer
            stream.ended(all_sent=sending.has_sent_all)
            await asyncio.wait({sender})
            if not sender.cancelled():
                sender.result()
        except grpc.aio.AioRpcError as error:
            raise self._calls.failure(error) from error
        except asyncio.CancelledError:
            self._calls.require_cancelled()
            if sending.is_cut_off and not is_cancelled():
                raise perhaps_sent() from None
            raise
        finally:
            sender.cancel()
            call.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    async def close(self) -> None:
        """Send what is buffered."""
        await self._buffer.close()


class _Sending:
    """Sender of one stream: one task reads the batches, another writes their requests.

    Two, because batches that share a request may be complete while the next batch does not come.
    """

    def __init__(self, call: StreamCall, stream: AddStream, settings: ClientSettings) -> None:
        self.has_sent_all = False
        """True if nothing more is sent, also after an error of the batches."""
        self.is_cut_off = False
        """True if the program cancelled a task of the sender while the call was in flight."""
        self._call = call
        self._stream = stream
        self._has_news = asyncio.Event()
        self._room = StreamRoom(settings)
        self._has_room = asyncio.Event()
        self._flush_delay_s = settings.flush_delay_s
        self._flush: asyncio.TimerHandle | None = None
        """Timer that sends the batches that wait, if no answer that the caller reads does so before."""

    def notify(self) -> None:
        """Continue if there is something to write."""
        if self._stream.outgoing or self._stream.is_complete:
            self._has_news.set()

    def release(self) -> None:
        """Make room for another batch: the caller has the answer to one."""
        self._room.release()
        self._has_room.set()

    def cut_off(self, task: "asyncio.Task[None]") -> None:
        """End the call if one of the tasks was cancelled, perhaps before its first step: its reader would wait for ever."""
        # A task that is cancelled while it writes has cancelled the call.
        if task.cancelled() and (not self._call.done() or self._call.cancelled()):
            self.is_cut_off = True
            self._call.cancel()

    async def send(self, batches: AsyncIterable[IndexBatch]) -> None:
        """Send all batches, then raise the error that ended them, if there was one."""
        reading = asyncio.create_task(self._put_all(batches))
        reading.add_done_callback(self.cut_off)
        try:
            await self._write_all()
            await reading
        finally:
            reading.cancel()
            if self._flush is not None:
                self._flush.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            # Also after an error of the batches: sent requests are answered first, then the reader raises the error.
            if not self._call.done():
                self.has_sent_all = True
                await self._call.done_writing()

    async def _put_all(self, batches: AsyncIterable[IndexBatch]) -> None:
        try:
            async for batch in batches:
                while not self._room.is_there:
                    self._has_room.clear()
                    await self._has_room.wait()
                self._room.take(self._stream.put(batch))
                self.notify()
                if self._flush is None and self._stream.has_waiting:
                    self._flush = asyncio.get_running_loop().call_later(self._flush_delay_s, self._send_waiting)
        finally:
            self._stream.complete()
            self.notify()

    def _send_waiting(self) -> None:
        self._flush = None
        self._stream.send_waiting()
        self.notify()

    async def _write_all(self) -> None:
        outgoing = self._stream.outgoing
        while not self._stream.is_complete or outgoing:
            while outgoing:
                await self._call.write(outgoing.popleft())
            if not self._stream.is_complete:
                self._has_news.clear()
                await self._has_news.wait()
