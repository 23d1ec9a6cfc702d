"""Adds positions on an event loop: one by one through a buffer, in batches that share calls, or as a stream."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable

import grpc

from delayed_tracker.client.aio.add_buffer import AddBuffer
from delayed_tracker.client.aio.calls import Calls, StreamCall, stop_at_end
from delayed_tracker.client.aio.shared_adds import SharedAdds
from delayed_tracker.client.model.answers import AddAnswer, AddResult
from delayed_tracker.client.model.bounds import require_type
from delayed_tracker.client.queues.add_stream import AddStream, IndexBatch
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
        room = asyncio.Semaphore(self._calls.settings.stream_batches_max)
        all_sent = asyncio.Event()
        sender = asyncio.create_task(_send_stream(call, stream, batches, room, all_sent))
        stop_at_end(sender, call)
        try:
            async for response in call:
                answer = stream.answered(response)
                if answer is not None:
                    room.release()
                    yield answer
            stream.ended(all_sent=all_sent.is_set())
            await asyncio.wait({sender})
            if not sender.cancelled():
                sender.result()
        except grpc.aio.AioRpcError as error:
            raise self._calls.failure(error) from error
        finally:
            sender.cancel()
            call.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    async def close(self) -> None:
        """Send what is buffered."""
        await self._buffer.close()


async def _send_stream(
    call: StreamCall,
    stream: AddStream,
    batches: AsyncIterable[IndexBatch],
    room: asyncio.Semaphore,
    all_sent: asyncio.Event,
) -> None:
    try:
        async for batch in batches:
            await room.acquire()
            for request in stream.requests(batch):
                await call.write(request)
    finally:
        # Also after an error of the batches: sent requests are answered first, then the reader raises the error.
        if not call.done():
            all_sent.set()
            await call.done_writing()
