"""What `apportion why` says of a pod whose group is served together: as the operator's cycle decides."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from apportion.allocator.decision import Decision
from apportion.cli.answers.decisions import Decisions
from apportion.cli.answers.why import why
from apportion.cli.world.world import World
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.web.observed import Observed
from apportion.web.waiting import queue_page
from tests.cli.worlds import Cluster, allocate_what_is_assumed, drawn_cluster, profile_request, two_cards
from tests.clients import unanswered
from tests.observedcluster import request

__all__ = ["unanswered"]

app = typer.Typer()
app.command()(why)
Json = dict[str, Any]


def joins(cluster: Cluster, name: str, least: int, wanted: Json, spec: Json | None = None) -> None:
    """Let a pod of group `g` wait."""
    cluster.wait_for(name, wanted, spec)
    raw = cluster.objects["Pod", "team", name]
    raw["metadata"]["labels"] = {"apportion.dev/pod-group": "g"}
    raw["metadata"]["annotations"] = {"apportion.dev/pod-group-min-count": str(least)}
    cluster.see(PODS, raw)


def answer(tmp_path: Path, cluster: Cluster, name: str) -> Json:
    path = cluster.write(tmp_path / "w")
    words = ["pod", name, "-n", "team", "--world", str(path), "-o", "json"]
    found: Json = json.loads(CliRunner().invoke(app, words).stdout)
    return found


def test_a_pod_whose_group_has_no_room_does_not_fit(tmp_path: Path) -> None:
    """One card is whole; each pod of the group would fit there by itself."""
    cluster = two_cards()
    for name in ("a", "b"):
        joins(cluster, name, 2, request("gpu"))
    for name in ("a", "b"):
        found = answer(tmp_path, cluster, name)
        assert (found["reason"], found["remedies"]) == ("NotAllocated", [])
        assert "group team/g needs 2 devices for 2 of its waiting pods together, and 1" in found["message"]
    rows = queue_page(Observed(World([*cluster.objects.values()], "1.37")), 1).rows
    assert {row.reason for row in rows} == {"NotAllocated"}


def test_a_pod_that_its_group_can_do_without_says_so(tmp_path: Path) -> None:
    """Enough of the others have room."""
    cluster = two_cards()
    for name in ("a", "b"):
        joins(cluster, name, 1, request("gpu"))
    found = {answer(tmp_path, cluster, name)["reason"] for name in ("a", "b")}
    assert found == {"Fits", "ClaimsNotAllocated"}


async def test_drawn_groups_fit_where_the_cycle_serves_them(unanswered: Client) -> None:
    """Partitions, whole cards, pods that are tied to a zone; pods that need a node of their own."""
    seen: Counter[tuple[bool, bool]] = Counter()
    for seed in range(60):
        rng = random.Random(seed)  # noqa: S311 - a test that can be repeated
        cluster = drawn_cluster(rng)
        cluster.cycle(unanswered).once()
        allocate_what_is_assumed(cluster)
        size = rng.randint(2, 4)
        least = rng.choice((1, size, size))
        wanted = request("gpu") if rng.random() < 0.3 else profile_request(rng.choice(["1g.10gb", "3g.40gb"]))
        names = [f"g{number}" for number in range(size)]
        for name in names:
            joins(cluster, name, least, wanted, {"nodeSelector": {"zone": "a"}} if seed % 3 else None)
        world = World([*cluster.objects.values()])
        decisions = Decisions(world.snapshot, world.holds)
        members = [each for each in decisions.waiting if each.members]
        alone = [isinstance(decisions.decide(each), Decision) for each in members]
        fits = {
            each.claims[0].name for each in members if isinstance(decisions.decide_in_group(each), Decision)
        }
        cluster = cluster.anew()
        cluster.cycle(unanswered).once()
        served = {name for name in names if name in cluster.places()}
        assert len(served) == len(fits), seed
        seen[any(alone), bool(served)] += 1
    assert seen[True, True] >= 5
    assert seen[True, False] >= 5
