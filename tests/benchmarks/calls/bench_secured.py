"""Calls in plain text, over TLS, and over TLS with tokens, rules and quotas."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

from delayed_tracker.client import ClientCredentials, TlsCredentials
from tests.benchmarks.calls import bench_grpc_poll
from tests.benchmarks.calls.bench_grpc_add import IN_FLIGHT, load_of, repeat
from tests.benchmarks.inputs.serving import Served, served
from tests.benchmarks.inputs.shapes import BATCH, Shape
from tests.benchmarks.measure import Reading, Run
from tests.benchmarks.rows import Row, Unit, per_second
from tests.service.security.certificates import Authority
from tests.service.security.tokens import SECRET, data_url, token

ABOUT = (
    "Three services run side by side over SQLite: in plain text, with TLS, and with TLS, a token in each call, a file of rules "
    "and one of quotas that are never reached. Repeats alternate between them, and a share is that of two repeats in a row. TLS "
    "1.3 with an elliptic key; connections stay open, so that no handshake is measured. A token is verified once and then "
    "known by its hash."
)
PLAIN, TLS, GUARDED = "in plain text", "over TLS", "over TLS, with token, rules and quotas"
_POLLS_OF = 1


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure batches of adds, then polls of one index, one call at a time."""
    async with AsyncExitStack() as stack:
        services = {
            how: await stack.enter_async_context(served(run, settings, credentials=credentials))
            for how, (settings, credentials) in _ways(run).items()
        }
        adds = load_of(run, Shape.WEEK, BATCH, in_flight=IN_FLIGHT)
        readings: dict[str, list[Reading]] = {how: [] for how in services}
        for counts in run.repeats(f"{adds.what}, {', '.join(services)}"):
            for how, service in services.items():
                reading = await repeat(service, adds)
                if counts:
                    readings[how].append(reading)
        for how in services:
            what = f"{adds.what}, {how}"
            yield per_second("secured rate", what, readings[how], adds.count, Shape.WEEK)
            if how != PLAIN:
                pairs = zip(readings[PLAIN], readings[how], strict=True)
                shares = tuple(plain.wall_ns / secured.wall_ns for plain, secured in pairs)
                yield Row("secured adds", what, Unit.SHARE, shares, adds.count, Shape.WEEK)
        async for row in _polls(run, services):
            yield row


async def _polls(run: Run, services: dict[str, Served]) -> AsyncIterator[Row]:
    load = bench_grpc_poll.poll_of(run, _POLLS_OF, Shape.DENSE, in_flight=1)
    sessions = {how: (await bench_grpc_poll.filled(run, service, [load]))[0] for how, service in services.items()}
    microseconds: dict[str, list[float]] = {how: [] for how in services}
    for number, counts in enumerate(run.repeats(f"{load.what}, {', '.join(services)}")):
        for how, service in services.items():
            reading = await bench_grpc_poll.repeat(run, service, load, sessions[how][number])
            if counts:
                microseconds[how].append(reading.wall_ns / 1e3 / load.count)
    for how, samples in microseconds.items():
        yield Row("secured poll", f"{load.what}, {how}", Unit.US_PER_CALL, tuple(samples), load.count, load.shape)


def _ways(run: Run) -> dict[str, tuple[dict[str, str], ClientCredentials | None]]:
    """Return settings and the client's credentials of each service."""
    directory, authority = run.new_directory(), Authority()
    issued = authority.issue("tracker")
    tls = {
        "grpcListenAddress": "tls://127.0.0.1:0",
        "tlsCertificateFilePath": _written(directory / "tracker.pem", issued.certificate),
        "tlsKeyFilePath": _written(directory / "tracker.key", issued.key),
    }
    rules = [{"role": "shop", "topicPrefix": "persistent://lab/", "actions": ["dispatch"]}]
    quota = {"callsPerSecond": 10**9, "indexesPerSecond": 10**12, "bytesPerSecond": 10**13, "pendingIndexesMax": 10**12}
    guarded = {
        **tls,
        "authenticationEnabled": "true",
        "authenticationProviders": "token",
        "tokenSecretKey": data_url(SECRET),
        "authorizationEnabled": "true",
        "authorizationRulesFilePath": _written(directory / "rules.json", json.dumps({"rules": rules}).encode()),
        "quotasFilePath": _written(directory / "quotas.json", json.dumps({"roles": {"shop": quota}}).encode()),
    }
    trusting = TlsCredentials(ca=authority.certificate)
    settings = {
        "isDelayedDeliveryDeliverAtTimeStrict": "true",
        "delayedDeliveryMinIndexCountPerBucket": str(run.scale.bucket),
        "mutableIndexesMax": str(2 * run.scale.adds),
    }
    return {
        PLAIN: (settings, None),
        TLS: ({**settings, **tls}, ClientCredentials(tls=trusting)),
        GUARDED: ({**settings, **guarded}, ClientCredentials(tls=trusting, token=token("shop"))),
    }


def _written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)
