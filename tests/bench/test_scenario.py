"""`python -m bench.scenario`: the peer's keys, and no device allocated twice."""

import gzip
import json
import re
import subprocess
import sys
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from apportion.dra.quantity import Quantity
from apportion.errors import BrokenInput
from bench.deadline import Expired, deadline, seconds
from bench.shares import CORES, MEMORY, shares
from tests.bench.running import program
from tests.shared import shared


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generate every scenario with four nodes."""
    folder = tmp_path_factory.mktemp("scenarios")
    generator = shared("peer/scenarios.py")
    subprocess.run([sys.executable, generator, "all", "--size", "tiny", "--out", folder], check=True)
    return folder


def keys_of(struct: str) -> set[str]:
    """The JSON keys of one of the peer's Go structs."""
    source = shared("peer/main.go").read_text()
    body = source.partition(f"type {struct} struct {{")[2].partition("\n}")[0]
    return set(re.findall(r'json:"([a-zA-Z0-9]+)', body))


@pytest.mark.slow
def test_figures_have_the_keys_of_the_peer(tiny: Path) -> None:
    """One line with the same keys, so that the two can be compared."""
    done = program("bench.scenario", tiny / "whole-gpu-tiny.json")
    assert done.stdout.count("\n") == 1
    figures = json.loads(done.stdout)
    assert set(figures) == keys_of("summary")
    assert figures["claims"] == figures["allocated"] + figures["unallocated"] == 17


@pytest.mark.slow
@pytest.mark.parametrize("name", ["whole-gpu", "mig", "gpu-nic", "vnpu"])
def test_no_device_is_allocated_to_two_claims_at_a_time(tiny: Path, tmp_path: Path, name: str) -> None:
    """Replay the events with the written lines, which have node, time and result of every claim."""
    file, out = tiny / f"{name}-tiny.json", tmp_path / "claims.jsonl"
    assert program("bench.scenario", file, "--out", out, "--strategy", "FirstFit").returncode == 0
    lines = {line["claim"]: line for line in map(json.loads, out.read_text().splitlines())}
    scenario = json.loads(file.read_text())
    events = scenario.get("events") or [
        {"op": "allocate", "claim": claim["metadata"]["name"]} for claim in scenario["claims"]
    ]
    held: dict[str, set[str]] = {}
    for event in events:
        if event["op"] == "release":
            held.pop(event["claim"], None)
            continue
        line = lines[event["claim"]]
        assert set(line) <= keys_of("outcome")
        if line["status"] == "allocated":
            results = line["result"]["devices"]["results"]
            devices = {f"{r['driver']}/{r['pool']}/{r['device']}" for r in results}
            assert len(devices) == len(results)
            assert {r["pool"] for r in results} == {line["node"]}
            assert not any(devices & others for others in held.values())
            held[event["claim"]] = devices
    assert held


@pytest.mark.slow
def test_shares_of_a_device_are_never_more_than_the_device(tmp_path: Path) -> None:
    """The scenario is the same for equal arguments; its events are replayed with the written lines."""
    content = shares(4, None, 1)
    assert content == shares(4, None, 1)
    assert content != shares(4, None, 2)
    file, out = tmp_path / "shares.json", tmp_path / "claims.jsonl"
    file.write_text(json.dumps(content))
    figures = json.loads(program("bench.scenario", file, "--out", out).stdout)
    assert figures["allocated"] > 0
    assert figures["released"] > 0
    lines = {line["claim"]: line for line in map(json.loads, out.read_text().splitlines())}
    used: Counter[tuple[str, str, str]] = Counter()
    for event in content["events"]:
        for row in (lines[event["claim"]].get("result") or {}).get("devices", {}).get("results", ()):
            for name, amount in row["consumedCapacity"].items():
                key = row["pool"], row["device"], name
                used[key] += Quantity.parse(amount).value * (1 if event["op"] == "allocate" else -1)
                assert 0 <= used[key] <= {"memory": MEMORY << 30, "cores": CORES}[name]
    assert used.total() > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mig", "gpu-nic", "vnpu"])
def test_released_devices_serve_later_claims(tiny: Path, name: str) -> None:
    """All rounds together request more than the cluster has; each round alone does not."""
    figures = json.loads(program("bench.scenario", tiny / f"{name}-tiny.json", "--one-by-one").stdout)
    assert figures["released"] > 0
    assert figures["unallocated"] == 0


@pytest.mark.slow
def test_a_gzipped_scenario_is_the_same_scenario(tiny: Path, tmp_path: Path) -> None:
    """Large scenarios are gzipped."""
    plain = tiny / "gpu-nic-tiny.json"
    packed = tmp_path / "gpu-nic-tiny.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    figures = [json.loads(program("bench.scenario", file).stdout) for file in (plain, packed)]
    for key in ("claims", "allocated", "released", "devices"):
        assert figures[0][key] == figures[1][key]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "allocated"),
    [("late-match-12", 0), ("late-match-sat-12", 1), ("count-short-32", 0), ("backtrack-12", 1)],
)
def test_adversarial_files_get_the_right_verdict(tiny: Path, name: str, allocated: int) -> None:
    """Searches that are exponential for a plain depth-first allocator end in time."""
    figures = json.loads(
        program("bench.scenario", tiny / f"adversarial-{name}.json", "--timeout", "10s").stdout
    )
    assert (figures["allocated"], figures["timeouts"], figures["errors"]) == (allocated, 0, 0)


@pytest.mark.slow
def test_a_claim_that_takes_too_long_is_a_timeout_and_the_next_one_is_served(tiny: Path) -> None:
    """A limit that no claim can meet ends every one of them."""
    figures = json.loads(program("bench.scenario", tiny / "whole-gpu-tiny.json", "--timeout", "1us").stdout)
    assert figures["timeouts"] == figures["claims"] == 17


@pytest.mark.slow
def test_a_bad_file_is_named(tmp_path: Path) -> None:
    """One line with file and reason, no traceback."""
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    for file, reason in ((broken, "not JSON"), (tmp_path / "none.json", "No such file")):
        done = program("bench.scenario", file)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: {file}: ")
        assert reason in done.stderr


def test_durations_are_read_as_go_writes_them() -> None:
    """Ours and the peer take the same flag."""
    assert [seconds(text) for text in ("0", "10s", "1m30s", "1.5s")] == [0, 10, 90, 1.5]
    assert seconds("250ms") == pytest.approx(0.25)
    with pytest.raises(BrokenInput, match="5 parrots"):
        seconds("5 parrots")


def test_a_deadline_ends_a_busy_loop() -> None:
    """The allocator reads no clock, so a signal must interrupt it."""
    with pytest.raises(Expired), deadline(0.02):
        any(False for _ in count())


@pytest.mark.slow
def test_the_comparison_runs_without_the_peer(tiny: Path, tmp_path: Path) -> None:
    """Ours alone, as a table and as JSON."""
    out = tmp_path / "figures.json"
    done = program(
        "bench", "--size", "tiny", "--scenario", "gpu-nic", "--no-peer", "--no-adversarial", "--json", out,
        XDG_CACHE_HOME=str(tmp_path), APPORTION_SHARED=str(shared("peer").parent),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "gpu-nic-tiny" in done.stdout
    (row,) = json.loads(out.read_text())["rows"]
    assert row["scenario"] == "gpu-nic-tiny"
    assert row["ours"][0]["unallocated"] == 0


@pytest.mark.slow
def test_without_the_shared_folder_the_comparison_says_what_is_missing(tmp_path: Path) -> None:
    """The message names the folder and the variable for another one."""
    done = program("bench", APPORTION_SHARED=str(tmp_path / "nowhere"), COLUMNS="400")
    assert done.returncode == 2
    assert "nowhere/peer is not there; set APPORTION_SHARED" in done.stderr
