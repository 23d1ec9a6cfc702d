"""Adds positions from threads: one by one through a buffer, in batches, or as a stream."""

import threading
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future

import grpc

from delayed_tracker.client.blocking.add_buffer import AddBuffer
from delayed_tracker.client.blocking.calls import Calls
from delayed_tracker.client.model.answers import AddAnswer, AddResult
from delayed_tracker.client.model.bounds import require_type
from delayed_tracker.client.queues.add_stream import AddStream, IndexBatch, StreamRoom
from delayed_tracker.client.rules.session import Claim, SessionRules
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.wire.columns import pack_indexes


class Adds:
    """Adds of one session. It does not refer to the session, which is freed when the program drops it."""

    def __init__(self, calls: Calls, rules: SessionRules) -> None:
        self._calls = calls
        self._rules = rules
        settings = calls.settings
        self._buffer = AddBuffer(
            lambda *columns: calls.perform(rules.add_columns(*columns)),
            flush_count=settings.flush_count,
            flush_delay_s=settings.flush_delay_s,
            buffer_max=settings.buffer_max,
        )

    def warn_when_dropped(self, session: object) -> None:
        """Warn if a session is dropped while adds are buffered."""
        self._buffer.warn_when_dropped(session)

    def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int) -> AddResult:
        """Add one position through the buffer, and wait for its result."""
        self.require_other_thread()
        return self.add_soon(deliver_at_ms, ledger_id, entry_id).result()

    def add_soon(self, deliver_at_ms: int, ledger_id: int, entry_id: int) -> "Future[AddResult]":
        """Add one position through the buffer; blocks only while the buffer is full, and never in a callback."""
        pack_indexes([deliver_at_ms], [ledger_id], [entry_id])
        return self._buffer.add(deliver_at_ms, ledger_id, entry_id)

    def add_packed(self, columns: tuple[bytes, bytes, bytes], count: int, claim: Claim | None) -> AddAnswer:
        """Add a batch in a call of its own."""
        return self._calls.perform(self._rules.add_packed(columns, count, claim))

    def stream(self, batches: Iterable[IndexBatch]) -> Generator[AddAnswer, None, None]:
        """Send batches over one stream; gRPC's thread sends while the caller's thread reads the answers."""
        require_type("batches", batches, Iterable, "give an iterable, such as a generator")
        sending = _Sending(self._rules.add_stream(), batches, StreamRoom(self._calls.settings))
        with self._calls.add_stream(sending.requests()) as call:
            try:
                for response in call:
                    for answer in sending.answered(response):
                        sending.release()
                        yield answer
                sending.ended()
            except grpc.RpcError as error:
                raise self._calls.failure(error) from error
            finally:
                sending.stop()

    def require_other_thread(self) -> None:
        """Refuse a call of a callback that would wait for the thread of the callback; raises WrongThread."""
        self._buffer.require_other_thread()

    def close(self) -> None:
        """Send what is buffered."""
        self._buffer.close()


class _Sending:
    """Sender of one stream: gRPC's thread sends the requests while the caller's thread reads the answers."""

    def __init__(self, stream: AddStream, batches: Iterable[IndexBatch], room: StreamRoom) -> None:
        self._stream = stream
        self._batches = batches
        self._room = room
        self._changed = threading.Condition()
        """Guards everything here; notified when there is room, or when the stream is stopped."""
        self._stopped = False
        self._all_sent = False
        self._error: Exception | None = None

    def requests(self) -> Iterator[bytes]:
        """Yield the requests of every batch when there is room for them; ends at the first error."""
        try:
            for batch in self._batches:
                with self._changed:
                    self._changed.wait_for(lambda: self._room.is_there or self._stopped)
                    if self._stopped:
                        return
                    self._room.take(self._stream.put(batch))
                    requests = self._stream.take_outgoing()
                yield from requests
        except Exception as error:  # noqa: BLE001  # raised again in the caller's thread
            self._error = error
        finally:
            self._all_sent = True

    def answered(self, response: pb.AddMessagesStreamResponse) -> list[AddAnswer]:
        """Apply an answer."""
        with self._changed:
            return self._stream.answered(response)

    def release(self) -> None:
        """Make room for another batch: the caller has the answer to one."""
        with self._changed:
            self._room.release()
            self._changed.notify()

    def ended(self) -> None:
        """Apply the end of the stream; raises the error of the sending thread, if there was one."""
        self._stream.ended(all_sent=self._all_sent)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Let gRPC's thread end, because the caller reads no more answers."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
