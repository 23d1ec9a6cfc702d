"""Trackers over SQLite whose snapshot storage or add log fails when it is told to: a process of its own.

python -m tests.benchmarks.inputs.faulty_service PATH

It prints its address. Each line of stdin is a JSON object with the plans of faults (fields of ``FaultPlan``) of ``storage``
and of ``log``, in force from then on; one that is left out has no faults.
"""

import asyncio
import json
import sys

import grpc

from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.grpc.methods import serve_tracker
from delayed_tracker.service.grpc.servicer import TrackerServicer
from delayed_tracker.service.process.kernels import load_kernels
from delayed_tracker.service.telemetry.logs import configure_logging
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.add_log_registry import open_add_log
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.storage.testing.faulty import FaultPlan, FaultyStorage
from delayed_tracker.storage.testing.faulty_log import FaultyAddLog

BUCKET = 2_000


async def main(path: str) -> None:
    """Serve until stdin closes."""
    configure_logging("console", "error")
    load_kernels()
    storage = FaultyStorage(open_storage(f"sqlite:{path}"), FaultPlan())
    limits = TrackerLimits(min_index_count_per_bucket=BUCKET, load_indexes_min=256, strict=True)
    log = FaultyAddLog(open_add_log(f"sqlite:{path}"), FaultPlan())
    registry = TrackerRegistry(storage, limits, add_log=log)
    await registry.start()
    server = grpc.aio.server()
    serve_tracker(TrackerServicer(registry), server, registry.calls)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    plans = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(plans), sys.stdin)
    async for line in plans:
        plans_of = json.loads(line)
        storage.plan, log.plan = (FaultPlan(**plans_of.get(name, {})) for name in ("storage", "log"))
    await server.stop(None)
    await registry.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
