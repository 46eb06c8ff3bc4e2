"""`apportion who` and `apportion status`: who has what, and a map of the cards."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from apportion.cli.answers.status import status
from apportion.cli.answers.who import who
from apportion.cli.world.world import World
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, SLICES, TAINT_RULES
from tests.cli.worlds import Cluster, allocate_what_is_assumed, drawn_cluster, profile_request, two_cards
from tests.clients import unanswered
from tests.observedcluster import GPU

__all__ = ["unanswered"]

app = typer.Typer()
app.command()(who)
app.command()(status)
Json = dict[str, Any]


def ask(tmp_path: Path, cluster: Cluster, *options: str) -> Result:
    path = cluster.write(tmp_path / "w")
    return CliRunner().invoke(app, [*options, "--world", str(path)], env={"COLUMNS": "80"})


def answer(tmp_path: Path, cluster: Cluster, *options: str) -> Json:
    found: Json = json.loads(ask(tmp_path, cluster, *options, "-o", "json").stdout)
    return found


@pytest.mark.parametrize("name", ["n1", "gpu-0-mig-3g40gb-9-0", "n1/gpu-0", f"{GPU}/n1/gpu-0-mig-3g40gb-9-0"])
def test_a_holder_is_found_by_node_by_device_and_by_card(tmp_path: Path, name: str) -> None:
    """Who has a part of a card is among those who hold the card."""
    result = ask(tmp_path, two_cards(), "who", name)
    assert result.exit_code == 0
    [row] = answer(tmp_path, two_cards(), "who", name)["holders"]
    assert (row["claim"], row["pods"], row["node"]) == ("team/held", ["team/holder"], "n1")
    assert ask(tmp_path, two_cards(), "who", name, "-o", "name").stdout == "team/held\n"


def test_nobody_and_nothing_end_with_1(tmp_path: Path) -> None:
    """A free node has no holders; a device that there is not is named, with what was probably meant."""
    assert ask(tmp_path, two_cards(), "who", "n2").exit_code == 1
    result = ask(tmp_path, two_cards(), "who", "gpu-0-mig-3g40gb-9-1")
    assert result.exit_code == 1
    assert (
        "there is no node or device gpu-0-mig-3g40gb-9-1; did you mean gpu-0-mig-3g40gb-9-" in result.stderr
    )


def test_what_an_agent_still_has_prepared_has_a_holder(tmp_path: Path) -> None:
    """The claims lost their devices, and their containers may run: a taint names them, or an annotation."""
    cluster = two_cards()
    claim, other = cluster.claim("former"), cluster.claim("other")
    taint = {"key": "apportion.dev/held", "value": claim["metadata"]["uid"], "effect": "NoSchedule"}
    published = cluster.slice("n3", "n3", {"devices": [{"name": "gpu-7", "taints": [taint]}]}, 1)
    published["metadata"]["annotations"] = {"apportion.dev/held": f"gpu-7/{other['metadata']['uid']}"}
    cluster.see(SLICES, published)
    rows = answer(tmp_path, cluster, "who", "gpu-7")["holders"]
    note = "still prepared, though the claim has lost it"
    assert [(row["claim"], row["note"]) for row in rows] == [("team/former", note), ("team/other", note)]


@pytest.mark.parametrize("admin", [False, True])
def test_a_device_that_is_in_no_slice_any_more_has_its_holder(tmp_path: Path, *, admin: bool) -> None:
    """Its driver has stopped, or the card has left: the claim has it until it ends, and people see why nobody else gets it."""
    cluster = two_cards()
    raw = cluster.allocate(cluster.claim("former"), "n1", "gpu-7")
    raw["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = admin
    cluster.see(CLAIMS, raw)
    [row] = answer(tmp_path, cluster, "who", "gpu-7")["holders"]
    note = "in no ResourceSlice any more"
    assert (row["claim"], row["note"]) == ("team/former", f"admin access, {note}" if admin else note)


@pytest.mark.parametrize("by_rule", [False, True])
def test_a_card_with_a_taint_fits_nobody(tmp_path: Path, *, by_rule: bool) -> None:
    """Its agent gave it, or an administrator by a DeviceTaintRule."""
    cluster = two_cards()
    taint = {"key": "example.com/repair", "effect": "NoSchedule"}
    cluster.node("n3")
    device = {
        "name": "gpu-7",
        "attributes": {"type": {"string": "gpu"}},
        "taints": [] if by_rule else [taint],
    }
    cluster.slice("n3", "n3", {"devices": [device]}, 1)
    if by_rule:
        spec = {"deviceSelector": {"driver": GPU, "pool": "n3"}, "taint": taint}
        cluster.see(TAINT_RULES, {"metadata": {"name": "repair"}, "spec": spec})
    other, _, card = answer(tmp_path, cluster, "status")["cards"]
    assert (other["tainted"], other["largest"]) == (False, "3g.40gb")
    assert (card["tainted"], card["largest"], card["slices"]) == (True, "", ".")


def test_cards_are_drawn_as_slices_with_their_holders(tmp_path: Path) -> None:
    """Each holder has a letter; what is free in pieces is scattered: the largest partition takes half of it."""
    cluster = two_cards()
    for name, device in ("one", "gpu-0-mig-1g10gb-19-1"), ("two", "gpu-0-mig-1g10gb-19-5"):
        cluster.allocate(cluster.claim(name, profile_request("1g.10gb")), "n2", device)
    first, second = answer(tmp_path, cluster, "status")["cards"]
    assert (first["slices"], first["holders"], first["largest"]) == (
        "AAAA....",
        {"A": "team/held"},
        "3g.40gb",
    )
    assert first["fragmentation"] == 0.0
    assert (second["slices"], second["largest"]) == (".A...B..", "1g.10gb")
    assert second["fragmentation"] == pytest.approx(5 / 6)
    cluster.allocate(cluster.claim("rest", profile_request("3g.40gb")), "n1", "gpu-0-mig-3g40gb-9-4")
    full = answer(tmp_path, cluster, "status")["cards"][0]
    assert (full["slices"], full["largest"], full["fragmentation"]) == ("AAAABBBB", "", None)


def test_claims_are_counted_and_the_table_has_80_columns(tmp_path: Path) -> None:
    """One is served, one waits, one names a class that there is not."""
    cluster = two_cards()
    cluster.wait_for("soon", profile_request("3g.40gb"))
    cluster.claim("unknown", {"name": "r", "exactly": {"deviceClassName": "gqu"}})
    cluster.pod("unknown", "unknown", gates=["apportion.dev/allocation"])
    result = ask(tmp_path, cluster, "status")
    assert "1 served, 1 waiting, 1 that nobody serves as they are" in result.stdout
    assert "[AAAA....]" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "A=team/held" in result.stdout.split()
    assert ask(tmp_path, cluster, "status", "-o", "name").stdout.split() == ["n1", "n2"]
    assert ask(tmp_path, Cluster(), "status").exit_code == 1


@pytest.mark.parametrize(("suffix", "lines"), [("", [["A=team/one,", "B=team/two"]]), ("-of-all-models", [])])
def test_holders_share_a_line_where_they_fit_and_have_lines_of_their_own_elsewhere(
    tmp_path: Path, suffix: str, lines: list[list[str]]
) -> None:
    """At 80 columns nothing of a name stands beside another one."""
    cluster = two_cards()
    for name, device in ("one", "gpu-0-mig-1g10gb-19-1"), ("two", "gpu-0-mig-1g10gb-19-5"):
        cluster.allocate(cluster.claim(name + suffix, profile_request("1g.10gb")), "n2", device)
    shown = [line.split() for line in ask(tmp_path, cluster, "status").stdout.splitlines()]
    assert [line[-2:] for line in shown if "A=team/one," in line] == lines
    if suffix:
        assert [line[-1] for line in shown if len(line) > 0 and "=team/" in line[-1]] == [
            "A=team/held",
            f"A=team/one{suffix}",
            f"B=team/two{suffix}",
        ]


@pytest.mark.parametrize("seed", range(20))
async def test_no_slice_is_lost_or_given_twice(seed: int, tmp_path: Path, unanswered: Client) -> None:
    """In drawn clusters that the cycle has filled, the letters of a card are as many slices as its holders' partitions take."""
    cluster = drawn_cluster(random.Random(seed))  # noqa: S311 - a test that can be repeated
    cluster.cycle(unanswered).once()
    allocate_what_is_assumed(cluster)
    sizes = {"1g10gb": 1, "3g40gb": 4, "7g80gb": 8}
    taken: dict[str, int] = {}
    for claim in World([*cluster.objects.values()]).snapshot.claims.values():
        for result in claim.allocation.results if claim.allocation else ():
            name = result.device.name
            size = sizes[name.split("-")[3]] if "-mig-" in name else 8
            taken[result.device.pool] = taken.get(result.device.pool, 0) + size
    rows = answer(tmp_path, cluster, "status")["cards"]
    assert {row["node"]: 8 - row["slices"].count(".") for row in rows if row["holders"]} == taken
    assert all(len(row["slices"]) == 8 for row in rows)
