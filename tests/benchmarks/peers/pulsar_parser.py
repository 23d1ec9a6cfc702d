"""Pulsar's own parser on the measured entries, in the same run: frame, checksum and metadata, from memory."""

import json
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.benchmarks.goals import Peer
from tests.benchmarks.measure import Run, require
from tests.jvm.pulsar_classes import NoPulsarClasses, class_path, find_java

_PROGRAM: Final = Path(__file__).parents[2] / "jvm" / "PulsarParses.java"
_WARM_UPS: Final = 3
"""Enough for its code to be compiled."""
_JVM_OPTIONS: Final = ("-Xmx1g", "-XX:MaxDirectMemorySize=1g", "-XX:+UseSerialGC")


def measure_pulsar_parser(run: Run, payloads: Sequence[bytes], keys: Sequence[str]) -> None:
    """Store the median rate, in millions of entries a second, under keys of ``goals.py``; or report why there is none.

    Args:
        run: with peers, else nothing is done.
        payloads: from :func:`tests.benchmarks.inputs.stored_ledgers.entries`.
        keys: of rows.
    """
    if not run.with_peers:
        return
    try:
        command = [find_java(), *_JVM_OPTIONS, "-cp", class_path(), str(_PROGRAM)]
    except NoPulsarClasses as missing:
        run.skip(f"Pulsar's own parser: {missing}")
        return
    run.note("peer: Pulsar's own parser")
    stored = run.new_directory() / "entries"
    with stored.open("wb") as file:
        for payload in payloads:
            file.write(len(payload).to_bytes(4, "big") + payload)
    command += [str(stored), str(_WARM_UPS + run.scale.repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        run.skip(f"Pulsar's own parser ended with status {done.returncode}: {done.stderr.strip()[-300:]}")
        return
    count = len(payloads)
    numbers = count * (count - 1) // 2
    repeats = [json.loads(line) for line in done.stdout.splitlines()]
    for repeat in repeats:
        found = repeat["readable"], repeat["index_sum"], repeat["delay_sum"]
        require("Pulsar's own parser", found == (count, numbers, 7 * numbers))
    rate = statistics.median(count * 1e3 / repeat["wall_ns"] for repeat in repeats[_WARM_UPS:])
    run.note(f"peer: {', '.join(keys)}: {rate:,.4g}")
    run.peers.update(dict.fromkeys(keys, Peer("java", rate, is_measured=True)))
