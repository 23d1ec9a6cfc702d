"""The benchmarks run, detect wrong output, and report their results. No test checks speed."""

import json
import os
import sys

import pytest

from delayed_tracker.spark.errors import JavaNotFound
from tests.benchmarks.__main__ import all_measured, main
from tests.benchmarks.catalogue import BENCHMARKS, Benchmark
from tests.benchmarks.goals import Peer
from tests.benchmarks.inputs.scale import QUICK
from tests.benchmarks.inputs.shapes import Shape
from tests.benchmarks.measure import Reading, Run, WrongOutput
from tests.benchmarks.paths import bench_spark
from tests.benchmarks.peers.java_peer import measure_java, medians
from tests.benchmarks.peers.pulsar_parser import measure_pulsar_parser
from tests.benchmarks.rows import HEADER, Row, Unit, per_index


@pytest.mark.slow
@pytest.mark.timeout(600)  # Spark starts four times
@pytest.mark.skipif(sys.platform != "linux", reason="time and memory of processes are read from /proc")
@pytest.mark.parametrize("benchmark", [
    # The others take from three seconds to minutes each, and change seldom.
    pytest.param(benchmark, id=benchmark.name, marks=[] if benchmark.name in {"add", "growth"} else [pytest.mark.deep])
    for benchmark in BENCHMARKS
])  # fmt: skip
def test_each_benchmark_runs_and_verifies_its_output(benchmark: Benchmark, tmp_path):
    """Each benchmark runs at a small size and verifies its output."""
    output = tmp_path / "report.md"
    assert main(["--quick", "--only", benchmark.name, "--output", str(output)]) == 0
    text = output.read_text(encoding="utf-8")
    assert f"## {benchmark.title}" in text
    assert text.count("\n| ") > HEADER.count("\n| ") + 1


def test_wrong_output_ends_the_run(tmp_path):
    """A benchmark with wrong output reports no number."""
    run = Run(scale=QUICK, directory=tmp_path)
    with pytest.raises(WrongOutput, match="broken"):
        run.measure("broken", prepare=list, run=lambda state: state.append(1), verify=lambda state: not state)


def test_what_was_measured_stays_if_a_later_benchmark_fails(tmp_path):
    """Until the run has ended, and if it fails, a file beside the report has the rows so far."""

    def wrong(_: Run):
        yield row("add", 40)
        raise WrongOutput("broken")

    run, so_far = Run(scale=QUICK, directory=tmp_path), tmp_path / "report.md.part"
    right = Benchmark("right", "Right", "", lambda _: iter([row("add", 40)]))

    def reported(parts):
        return "".join(part.title for part in parts)

    with pytest.raises(WrongOutput):
        all_measured([right, Benchmark("wrong", "Wrong", "", wrong)], run, so_far, reported)
    assert so_far.read_text() == "Unfinished: 1 of 2 benchmarks.\n\nRight"
    assert [part.title for part in all_measured([right], run, so_far, reported)] == ["Right"]
    assert not so_far.exists()


def test_the_warm_up_does_not_count(tmp_path):
    """One more repeat runs than is reported."""
    made = []
    readings = Run(scale=QUICK, directory=tmp_path).measure(
        "counted", prepare=lambda: None, run=made.append, verify=lambda _: True
    )
    assert len(made) == QUICK.repeats + 1 == len(readings) + 1


def test_an_unknown_benchmark_is_refused(capsys):
    """An unknown benchmark is refused with the list of names."""
    with pytest.raises(SystemExit):
        main(["--only", "ad"])
    assert "there is no benchmark 'ad'; there are add, codec" in capsys.readouterr().err


def row(key: str, value: float, unit: Unit = Unit.NS_PER_INDEX, shape: Shape | None = None) -> Row:
    return Row(key, "something", unit, (value,), 1_000, shape)


def test_a_goal_is_met_or_not():
    """Lower is better for times, higher for rates; a shape may have its own goal."""
    assert row("add", 40).is_met({}) is True
    assert row("add", 41).is_met({}) is False
    assert row("growth", 0.8, Unit.RATIO).is_met({}) is True
    assert row("growth", 0.79, Unit.RATIO).is_met({}) is False
    assert row("seal", 200, shape=Shape.DENSE).is_met({}) is False
    assert row("seal", 200, shape=Shape.WEEK).is_met({}) is True
    assert row("drain", 1).is_met({}) is None


def test_a_goal_may_be_a_multiple_of_the_peer():
    """If the goal is a multiple of the peer, reaching the number alone is not enough."""
    fast = row("grpc add", 4, Unit.MILLION_PER_S)
    assert fast.is_met({}) is True
    assert fast.is_met({"grpc add": Peer("redis", 0.41)}) is False
    assert row("grpc poll", 10, Unit.MILLION_PER_S).is_met({"grpc poll": Peer("redis", 0.9)}) is True


def test_a_peer_of_this_run_takes_the_place_of_a_stated_one():
    """A measured peer replaces a stated one, and the table names which it is."""
    measured = row("add", 50).markdown({"add": Peer("java", 200, is_measured=True)})
    assert "200 (java, this run) | 4 x |" in measured
    assert "129 (java, stated) | 2.6 x |" in row("add", 50).markdown({})


def test_a_row_with_its_own_goal_may_share_a_peer():
    """A compared number may stand in several rows with different goals."""
    redis = {"grpc add": Peer("redis", 0.4, is_measured=True)}
    assert row("grpc add", 4, Unit.MILLION_PER_S).is_met(redis) is True
    assert row("grpc add sealing", 3.9, Unit.MILLION_PER_S).is_met({}) is False
    assert "0.4 (redis, this run) | 9.8 x |" in row("grpc add sealing", 3.9, Unit.MILLION_PER_S).markdown(redis)


def test_a_row_shows_median_and_spread():
    """A row shows the median and spread per index, with processor time and the highest peak."""
    readings = [Reading(wall_ns, 2_000_000, peak) for wall_ns, peak in ((1_000, 0), (3_000, 5_000_000), (2_000, 1))]
    text = per_index("drain", "something", readings, 1_000).markdown({})
    assert "| 1,000 | 2 (1 to 3) ns per index | 2,000 ns | 5.0 MB |" in text


def test_numbers_of_the_java_harness_are_medians_of_what_counts():
    """Warm-ups and lines that are not JSON are skipped."""
    lines = [
        "starting",
        *(json.dumps({"warm": ns == 900, "case": "bucket", "add_plain_ns": ns}) for ns in (900, 3, 1, 2)),
    ]
    assert medians(lines)["add_plain_ns"] == 2


def test_peers_without_redis_are_refused_before_anything_is_measured(monkeypatch, capsys):
    """A run of an hour does not end without the peer it was asked for."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit):
        main(["--peers", "--quick"])
    assert "there is no redis-server on the PATH (Debian: apt-get install redis-server)" in capsys.readouterr().err


def test_a_peer_that_is_not_there_is_left_out_with_a_sentence(tmp_path):
    """A missing peer is skipped with a reason, but only if a benchmark needs it."""
    run = Run(scale=QUICK, directory=tmp_path, with_peers=True)
    measure_java(run, {"pop"})
    assert run.skipped == []
    measure_java(run, {"add"})
    assert run.skipped == ["Pulsar's own trackers: JAVA_TRACKER_BENCH names no directory with the harness"]


def test_pulsars_parser_is_left_out_where_there_is_no_java(tmp_path, monkeypatch):
    """Pulsar's parser is skipped with a reason without Java, and is not searched for without peers."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    run = Run(scale=QUICK, directory=tmp_path)
    measure_pulsar_parser(run, [], ["ledger parse"])
    assert run.skipped == []
    run.with_peers = True
    measure_pulsar_parser(run, [], ["ledger parse"])
    assert run.skipped == [f"Pulsar's own parser: there is no {tmp_path}/no-java/bin/java, which JAVA_HOME promises"]
    assert run.peers == {}


def test_spark_is_left_out_where_there_is_no_java(tmp_path, monkeypatch):
    """Spark is skipped without Java, and the reason states what to install."""

    def none_found():
        raise JavaNotFound("there is none; install one")

    monkeypatch.setattr(bench_spark, "find_java", none_found)
    run = Run(scale=QUICK, directory=tmp_path)
    assert list(bench_spark.rows(run)) == []
    assert run.skipped == ["Spark: there is none; install one"]


HARNESS = """
test -f built || exit 1
case "$*" in
contains) echo '{"warm":true,"hit_ns":900}'; echo '{"warm":false,"foreign_during":0.05,"hit_ns":41.5}' ;;
'contains half=1') echo '{"warm":false,"foreign_during":0.62,"hit_ns":3050}' ;;
*) exit 1 ;;
esac
"""
"""A ``run1.sh`` with two cases."""


@pytest.mark.skipif(sys.platform == "win32", reason="the harness is made of shell scripts")
def test_the_harness_is_built_and_its_numbers_stand_beside_ours(tmp_path, monkeypatch):
    """A copy of the harness is built; an unsupported case is skipped with a reason, and a disturbed one is reported."""
    programs, harness, directory = tmp_path / "bin", tmp_path / "harness", tmp_path / "run"
    for path in (programs, harness, directory):
        path.mkdir()
    for name in ("java", "mvn"):
        (programs / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    (harness / "build.sh").write_text("touch built")
    (harness / "run1.sh").write_text(HARNESS)
    run = Run(scale=QUICK, directory=directory, with_peers=True, java_bench=harness)
    measure_java(run, {"contains", "memory"})
    assert run.peers == {
        "contains": Peer("java", 41.5, is_measured=True),
        "contains half drained": Peer("java", 3_050, is_measured=True),
    }
    assert run.skipped == [
        "a quiet machine for Pulsar's own trackers: during contains half=1 other programs took 0.6 cores",
        "Pulsar's own trackers: mem ledgers=200 runs=3 warm=0 (status 1) does not tell 'heap_B_per_idx'",
    ]
    assert not (harness / "built").exists()
