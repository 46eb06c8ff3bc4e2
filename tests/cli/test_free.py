"""`apportion free`: how many devices of each kind are left, judged by trying all sets of devices."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from apportion.cli.answers.free import free
from apportion.cli.answers.largest import largest
from apportion.cluster.kinds import CLAIMS, SLICES
from tests.cli.worlds import Cluster, two_cards
from tests.observedcluster import GPU

app = typer.Typer()
app.command()(free)
Json = dict[str, Any]
PROFILES = ("one", "two", "three")
COUNTERS = ("cores", "slice-0", "slice-1", "slice-2")


@st.composite
def cards(draw: st.DrawFn) -> list[Json]:
    """Draw up to three cards of at most nine devices: amounts, what each device takes, which are held, tainted or static."""
    return [
        {
            "totals": {name: draw(st.integers(1, 4)) for name in COUNTERS},
            "devices": [
                {
                    "profile": draw(st.sampled_from(PROFILES)),
                    "takes": {name: draw(st.integers(0, 2)) for name in draw(st.sampled_from((COUNTERS[:1], COUNTERS[1:3], COUNTERS)))},
                    "taint": draw(st.sampled_from(("", "", "", "apportion.dev/guard", "sick"))),
                    "plain": draw(st.integers(0, 5)) == 3,
                    "held": draw(st.integers(0, 4)) == 2,
                }
                for _ in range(draw(st.integers(1, 9)))
            ],
            "node": draw(st.sampled_from(("n1", "n2"))),
        }
        for _ in range(draw(st.integers(1, 3)))
    ]  # fmt: skip


def build(drawn: list[Json]) -> Cluster:
    """Publish the cards, and let claims hold what is held and still fits."""
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.node(name)
    for number, card in enumerate(drawn):
        counters = {key: {"value": str(value)} for key, value in card["totals"].items()}
        rows = []
        for index, device in enumerate(card["devices"]):
            row: Json = {"name": f"dev-{index}", "attributes": {"profile": {"string": device["profile"]}}}
            if not device["plain"]:
                takes = {key: {"value": str(value)} for key, value in device["takes"].items()}
                row["consumesCounters"] = [{"counterSet": "set", "counters": takes}]
            if device["taint"]:
                row["taints"] = [{"key": device["taint"], "effect": "NoSchedule"}]
            rows.append(row)
        node, pool = card["node"], f"pool-{number}"
        sets = [{"name": "set", "counters": counters}]
        cluster.slice(node, f"{pool}-sets", {"sharedCounters": sets}, 2, pool)
        cluster.slice(node, f"{pool}-devices", {"devices": rows}, 2, pool)
    return cluster


def hold(cluster: Cluster, drawn: list[Json]) -> None:
    """Hold the devices that are marked as held, one after the other as long as they fit; mark the others as not held."""
    for number, card in enumerate(drawn):
        held: list[Json] = []
        for index, device in enumerate(card["devices"]):
            device["held"] = device["held"] and fit(card, [*held, device])
            if device["held"]:
                held.append(device)
                raw = cluster.claim(f"c-{number}-{index}")
                raw["status"] = {"allocation": {"devices": {"results": [
                    {"request": "gpu", "driver": GPU, "pool": f"pool-{number}", "device": f"dev-{index}"}
                ]}}}  # fmt: skip
                cluster.see(CLAIMS, raw)


def fit(card: Json, devices: list[Json]) -> bool:
    """Say whether devices go together on a card, by its amounts alone."""
    return all(
        sum(device["takes"].get(name, 0) for device in devices if not device["plain"]) <= total
        for name, total in card["totals"].items()
    )


def most(card: Json, profile: str) -> int:
    """Return the most free devices of a profile that go together beside what is held: all sets are tried."""
    held = [device for device in card["devices"] if device["held"]]
    free_ones = [
        device
        for device in card["devices"]
        if device["profile"] == profile and not device["held"] and device["taint"] != "sick"
    ]
    for size in range(len(free_ones), 0, -1):
        if any(fit(card, [*held, *chosen]) for chosen in combinations(free_ones, size)):
            return size
    return 0


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(cards())
def test_what_is_left_equals_what_trying_all_sets_finds(drawn: list[Json]) -> None:
    """On every card the best set counts, and cards add up; no node is counted twice."""
    cluster = build(drawn)
    hold(cluster, drawn)
    found = largest(cluster.snapshot.state)
    for profile in PROFILES:
        rows = [left for kind, left in found.items() if kind.name == profile]
        assert sum(left.left for left in rows) == sum(most(card, profile) for card in drawn)
        for node in ("n1", "n2"):
            own = sum(most(card, profile) for card in drawn if card["node"] == node)
            assert sum(left.nodes.get(node, 0) for left in rows) == own
        assert all(left.exact for left in rows)


def ask(path: Path, *options: str) -> tuple[int, Any]:
    result = CliRunner().invoke(app, ["--world", str(path), "-o", "json", *options])
    found = json.loads(result.stdout) if result.stdout else {}
    return result.exit_code, {row["device"]: (row["left"], row["of"]) for row in found.get("devices", ())}


def test_a_card_in_use_is_no_whole_one_and_has_room_for_parts(tmp_path: Path) -> None:
    """Half of one of two cards is held: one whole card is left, and what fits beside the half."""
    status, found = ask(two_cards().write(tmp_path / "w"))
    assert status == 0
    assert found == {"gpu": (1, 2), "1g.10gb": (10, 14), "3g.40gb": (3, 4), "7g.80gb": (1, 2)}


def test_nodes_that_are_gone_cordoned_or_added_change_what_is_left(tmp_path: Path) -> None:
    """A what-if question is answered as if the cluster were so; a cordoned node's devices are there, and not left."""
    cluster = two_cards()
    path = cluster.write(tmp_path / "w")
    assert ask(path, "--without-node", "n2")[1]["gpu"] == (0, 1)
    assert ask(path, "--without-node", "n1")[1]["1g.10gb"] == (7, 7)
    assert ask(path, "--add-nodes", "3 like n1")[1]["gpu"] == (4, 5)
    raw = cluster.objects["Node", "", "n2"]
    raw["spec"] = {"unschedulable": True}
    assert ask(cluster.write(path))[1]["gpu"] == (0, 2)


def test_a_network_device_of_two_nodes_counts_once() -> None:
    """Devices that several nodes reach are no more devices."""
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.node(name)
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": GPU, "allNodes": True, "pool": pool, "devices": [{"name": "a"}, {"name": "b"}]}
    cluster.see(SLICES, {"metadata": {"name": "net"}, "spec": spec})
    [left] = largest(cluster.snapshot.state).values()
    assert (left.left, left.most, left.nodes) == (2, 2, {"n1": 2})


def test_nothing_left_ends_with_1(tmp_path: Path) -> None:
    """Scripts see by the exit status that nothing is left."""
    cluster = two_cards()
    path = cluster.write(tmp_path / "w")
    whole = {"name": "gpu"}
    for name in ("n1", "n2"):
        cluster.allocate(
            cluster.claim(f"all-{name}", {**whole, "exactly": {"deviceClassName": "gpu"}}), name, "gpu-0"
        )
    cluster.write(path)
    assert ask(path)[0] == 1


def test_bad_input_ends_with_2_and_one_sentence(tmp_path: Path) -> None:
    """A node that is not there, a number that is none, a file that is none, an output that is none."""
    path = two_cards().write(tmp_path / "w")
    (tmp_path / "broken").write_text("kind: [")
    for options, words in (
        (["--world", str(path), "--without-node", "n9"], "there is no node n9"),
        (["--world", str(path), "--add-nodes", "three like n1"], 'write "N like NODE"'),
        (["--world", str(path), "--add-nodes", "0 like n1"], "1 to 1000"),
        (["--world", str(tmp_path / "broken")], "neither JSON nor YAML"),
        (["--world", str(tmp_path / "absent")], "No such file"),
        (["--world", str(path), "-o", "text"], "table, json, yaml, name"),
    ):
        result = CliRunner().invoke(app, options)
        assert result.exit_code == 2, options
        assert words in result.stderr
        assert "Traceback" not in result.stderr


def test_a_further_node_with_a_slice_without_a_name_ends_in_one_sentence(tmp_path: Path) -> None:
    """As a slice without a name does by itself."""
    world = two_cards().as_list()
    for item in world["items"]:
        if item["kind"] == "ResourceSlice":
            del item["metadata"]
    path = tmp_path / "w"
    path.write_text(json.dumps(world))
    for options in ((), ("--add-nodes", "2 like n1")):
        result = CliRunner().invoke(app, ["--world", str(path), *options])
        assert result.exit_code == 2, options
        assert "a ResourceSlice has no name" in result.stderr


def test_the_table_is_plain_and_80_columns_wide(tmp_path: Path) -> None:
    """Without a terminal there is no colour, and no line is longer than 80 characters."""
    path = two_cards().write(tmp_path / "w")
    result = CliRunner().invoke(app, ["--world", str(path)], env={"COLUMNS": "80"})
    assert "\x1b" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert [line.split()[-3:] for line in result.stdout.splitlines() if "3g.40gb" in line] == [
        ["3", "4", "2"]
    ]
