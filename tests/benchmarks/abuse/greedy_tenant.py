"""Waits of other principals while one principal calls at several times its quota.

python -m tests.benchmarks.abuse.greedy_tenant [--seconds N] [--quota N] [--times 0,1,10] [--batch N]

The service has one core, all clients the other. Others make an add of a batch every 10 ms. The greedy principal begins adds at a
steady rate, whether they are answered or not, and ignores the pause that a refusal asks for.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import grpc

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.v1 import tracker_pb2_grpc as pb_grpc
from tests.benchmarks.measure import percentile
from tests.service.security.tokens import SECRET, data_url, token

OTHERS_PAUSE_S: Final = 0.01
WARM_UP_S: Final = 2.0
GREEDY_NICE: Final = 10
"""The greedy client yields the core to that of the others, so that its own work does not count as their wait."""
_TURN_S: Final = 0.005
_FAR_MS: Final = 4_000_000_000_000


def adding(role: str, epoch: int, batch: int, number: int) -> pb.AddMessagesRequest:
    """Return an add of a batch of new positions."""
    entries = range(number * batch, (number + 1) * batch)
    return pb.AddMessagesRequest(
        tracker=_tracker(role), epoch=epoch, ledger_ids=[1] * batch, entry_ids=entries, deliver_at_ms=[_FAR_MS] * batch
    )


def _tracker(role: str) -> pb.TrackerRef:
    return pb.TrackerRef(topic=f"persistent://lab/{role}/topic", subscription="s")


async def call_at_rate(address: str, role: str, per_second: float, batch: int, seconds: float) -> Counter[str]:
    """Begin adds at a rate, and count their codes."""
    metadata, codes = (("authorization", f"Bearer {token(role)}"),), Counter[str]()
    async with grpc.aio.insecure_channel(address) as channel:
        stub = pb_grpc.DelayedDeliveryTrackerServiceStub(channel)
        opening = pb.OpenTrackerRequest(tracker=_tracker(role), owner=role)
        epoch = (await stub.OpenTracker(opening, metadata=metadata)).epoch

        async def add(number: int) -> None:
            try:
                await stub.AddMessages(adding(role, epoch, batch, number), metadata=metadata)
                codes["OK"] += 1
            except grpc.aio.AioRpcError as error:
                codes[error.code().name] += 1

        begun, count = time.perf_counter(), 0
        async with asyncio.TaskGroup() as tasks:
            while (elapsed := time.perf_counter() - begun) < seconds:
                while count < per_second * elapsed:
                    tasks.create_task(add(count))
                    count += 1
                await asyncio.sleep(_TURN_S)
    return codes


def greedy(address: str, times: float, options: argparse.Namespace, answers: Connection) -> None:
    """Call at so many times the quota in a process of its own; send the counts of codes."""
    os.sched_setaffinity(0, {options.cores[1]})
    seconds = options.seconds + 2 * WARM_UP_S
    calling = call_at_rate(address, "greedy", times * options.quota, options.batch, seconds)
    answers.send(asyncio.run(calling))


async def waits_of_others(address: str, batch: int, seconds: float) -> list[float]:
    """Return the milliseconds of adds that are begun one after the other, ascending."""
    metadata, took_ms = (("authorization", f"Bearer {token('other')}"),), []
    async with grpc.aio.insecure_channel(address) as channel:
        stub = pb_grpc.DelayedDeliveryTrackerServiceStub(channel)
        opening = pb.OpenTrackerRequest(tracker=_tracker("other"), owner="other")
        epoch = (await stub.OpenTracker(opening, metadata=metadata)).epoch
        ends, number = time.perf_counter() + seconds, 0
        while time.perf_counter() < ends:
            request = adding("other", epoch, batch, number)
            begun = time.perf_counter()
            await stub.AddMessages(request, metadata=metadata)
            took_ms.append(1e3 * (time.perf_counter() - begun))
            number += 1
            await asyncio.sleep(OTHERS_PAUSE_S)
    return sorted(took_ms)


async def measure(address: str, times: float, options: argparse.Namespace) -> tuple[Counter[str], list[float]]:
    """Call with the greedy principal at so many times its quota, and return its codes and the waits of others."""
    if not times:
        return Counter(), await waits_of_others(address, options.batch, options.seconds)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=greedy, args=(address, times, options, theirs))
    process.start()
    await asyncio.sleep(WARM_UP_S)
    waits = await waits_of_others(address, options.batch, options.seconds)
    codes = await asyncio.to_thread(ours.recv)
    process.join()
    return codes, waits


async def main(options: argparse.Namespace) -> None:
    """Print the waits of others for each rate of the greedy principal."""
    os.sched_setaffinity(0, {options.cores[1]})
    with tempfile.TemporaryDirectory(prefix="greedy-") as place:
        directory = Path(place)
        quotas = directory / "quotas.json"
        quotas.write_text(json.dumps({"roles": {"greedy": {"callsPerSecond": options.quota}}}))
        service = await ServiceProcess.start(
            directory,
            storage_url=f"sqlite:{directory / 'tracker.db'}",
            settings={
                "authenticationEnabled": "true",
                "authenticationProviders": "token",
                "tokenSecretKey": data_url(SECRET),
                "quotasFilePath": str(quotas),
            },
            run_by=("taskset", "--cpu-list", str(options.cores[0])),
        )
        try:
            await waits_of_others(service.grpc_address, options.batch, WARM_UP_S)
            print("times quota   others: p50 ms   p99 ms   most ms   greedy")
            for _ in range(options.repeats):
                for times in options.times:
                    codes, waits = await measure(service.grpc_address, times, options)
                    said = ", ".join(f"{count:,} {code}" for code, count in codes.items())
                    print(
                        f"{times:11}{percentile(waits, 0.5):17.2f}{percentile(waits, 0.99):9.2f}{waits[-1]:10.2f}   {said}",
                        flush=True,
                    )
            await service.stop()
        finally:
            await service.ensure_stopped()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="duration of each measurement")
    parser.add_argument("--quota", type=int, default=50, help="calls a second of the greedy principal")
    parser.add_argument("--times", type=lambda text: [float(each) for each in text.split(",")], default=[0, 1, 10])
    parser.add_argument("--batch", type=int, default=100, help="indexes in a call")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cores", type=lambda text: [int(core) for core in text.split(",")], default=[0, 1])
    asyncio.run(main(parser.parse_args()))
