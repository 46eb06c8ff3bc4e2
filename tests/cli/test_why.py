"""`apportion why`: what keeps a claim or pod waiting, and remedies that the operator's cycle proves."""

import itertools
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from apportion.cli.answers.decisions import Decisions, Reason
from apportion.cli.answers.remedies import Remedies
from apportion.cli.answers.why import why
from apportion.cli.world.objects import kind_of
from apportion.cli.world.world import World
from apportion.cluster.client import Client
from apportion.cluster.kinds import NAMESPACES, NODES, PODS, QUOTAS
from apportion.scheduling.demands.waitingqueue import waiting_demands
from tests.cli.worlds import Cluster, allocate_what_is_assumed, drawn_situation, profile_request, two_cards
from tests.clients import unanswered
from tests.observedcluster import GPU, request

__all__ = ["unanswered"]

app = typer.Typer()
app.command()(why)
Json = dict[str, Any]
SITUATIONS = 200


def ask(tmp_path: Path, cluster: Cluster, *options: str) -> Result:
    path = cluster.write(tmp_path / "w")
    return CliRunner().invoke(app, [*options, "--world", str(path), "-n", "team"], env={"COLUMNS": "80"})


def answer(tmp_path: Path, cluster: Cluster, *options: str) -> Json:
    result = ask(tmp_path, cluster, *options, "-o", "json")
    found: Json = json.loads(result.stdout)
    assert result.exit_code == (0 if found["served"] or found["reason"] == "Fits" else 1)
    return found


@pytest.mark.slow
async def test_each_remedy_is_enough_and_nothing_is_served_without_one(unanswered: Client) -> None:
    """200 drawn situations: what waits is served by a new cycle with any remedy that is named, and by none as it is."""
    situations, found, reasons = 0, Counter[str](), Counter[str]()
    seeds = itertools.count()
    while situations < SITUATIONS:
        seed = next(seeds)
        cluster = drawn_situation(random.Random(seed))  # noqa: S311 - a test that can be repeated
        cluster.cycle(unanswered).once()
        allocate_what_is_assumed(cluster)
        world = World([*cluster.objects.values()])
        decisions = Decisions(world.snapshot, world.holds)
        before = dict(world.objects)
        for demand in waiting_demands(world.snapshot)[0][:2]:
            situations += 1
            reason = decisions.decide(demand)
            assert isinstance(reason, Reason), seed
            reasons[reason.name] += 1
            [name] = [claim.name for claim in demand.claims]
            others = [
                key
                for key in world.objects
                if key.name.startswith("before-") and key.name != name and waits(world, key)
            ]
            assert served(world, others, (), unanswered, name) is None, seed
            for remedy in Remedies(world, decisions, demand, reason).find():
                found[remedy.name] += 1
                assert served(world, others, remedy.changes, unanswered, name) == remedy.node, (seed, remedy)
            assert world.objects == before, seed
    assert found.keys() >= {
        "AskForFewer",
        "ChangePod",
        "TolerateTaint",
        "RaiseLimit",
        "Uncordon",
        "WaitFor",
        "AddNode",
    }
    assert min(found.values()) >= 5, found
    assert reasons["DevicesHeld"] >= 5, reasons


def waits(world: World, key: Any) -> bool:
    claim = world.snapshot.claim(key.namespace, key.name)
    return claim is not None and claim.allocation is None


def served(world: World, without: Any, changes: Any, client: Client, name: str) -> str | None:
    """Return where a new operator's cycle sends a claim in the cluster with these changes, other waiting claims aside."""
    objects = {key: raw for key, raw in world.objects.items() if key not in without}
    for key, raw in changes:
        objects.pop(key, None)
        if raw is not None:
            objects[key] = raw
    cluster = Cluster()
    for raw in objects.values():
        kind = kind_of(raw)
        assert kind is not None
        cluster.see(kind, json.loads(json.dumps(raw)))
    cluster.cycle(client).once()
    return cluster.places().get(name)


def remedies(found: Json) -> dict[str, str]:
    """Return the texts by remedy."""
    return {each["remedy"]: each["message"] for each in found["remedies"]}


def test_a_claim_that_asks_for_too_much_names_its_holders(tmp_path: Path) -> None:
    """Two whole cards are on no node: fewer would do; the holder of the half of n1 matters to none of it."""
    cluster = two_cards()
    cluster.wait_for("two", request("gpu", count=2))
    found = answer(tmp_path, cluster, "claim", "two")
    assert found["reason"] == "NotAllocated"
    assert "wants 2" in found["message"]
    assert remedies(found)["AskForFewer"].endswith("a count of 1 instead of 2")
    assert "WaitFor" not in remedies(found)
    assert "AddNode" not in remedies(found)


def test_the_text_about_each_group_of_nodes_names_claims(tmp_path: Path) -> None:
    """The allocator knows them by UID, which tells people nothing."""
    cluster = two_cards()
    uid = "b2dc8446-0f3e-4f6a-9f0e-3d2c1b0a9e8"
    for number in (1, 2):
        raw = cluster.claim(f"whole-{number}", request("gpu"), uid=f"{uid}{number}")
        cluster.allocate(raw, f"n{number}", "gpu-0")
    cluster.wait_for("more", request("gpu"))
    path = cluster.write(tmp_path / "w")
    result = CliRunner().invoke(app, ["claim", "team/more", "--world", str(path)], env={"COLUMNS": "500"})
    assert uid not in result.stdout
    assert "    held by claim team/whole-" in result.stdout


def test_the_fewest_pods_that_have_to_end_are_named(tmp_path: Path) -> None:
    """n1 has a half and a small part in use, n2 a whole card by two pods: for a half on n1 only the small one has to go."""
    cluster = two_cards()
    for name, node, device in (
        ("small", "n1", "gpu-0-mig-1g10gb-19-5"),
        ("left", "n2", "gpu-0-mig-3g40gb-9-0"),
        ("right", "n2", "gpu-0-mig-3g40gb-9-4"),
    ):
        cluster.allocate(cluster.claim(name, profile_request("1g.10gb")), node, device)
        cluster.pod(name, name, spec={"nodeName": node})
    cluster.wait_for("half", profile_request("3g.40gb"))
    found = remedies(answer(tmp_path, cluster, "pod", "half"))
    assert found["WaitFor"] in {
        "pod team/small: when it has ended", "pod team/left: when it has ended", "pod team/right: when it has ended",
    }  # fmt: skip
    cluster.wait_for("whole", request("gpu"))
    assert " and " not in remedies(answer(tmp_path, cluster, "pod", "whole"))["WaitFor"]
    assert remedies(answer(tmp_path, cluster, "pod", "whole"))["WaitFor"].count("pod team/") == 2
    assert remedies(answer(tmp_path, cluster, "pod", "whole"))["AddNode"] == "one more node like n1"


def test_limits_cordons_taints_and_node_selectors_are_found(tmp_path: Path) -> None:
    """What a person can change is named as the object and field that it is in."""
    cluster = two_cards()
    cluster.wait_for("tied", request("gpu"), {"nodeSelector": {"kubernetes.io/hostname": "n9"}})
    assert (
        remedies(answer(tmp_path, cluster, "pod", "tied"))["ChangePod"]
        == "pod team/tied without its nodeSelector"
    )
    n2 = cluster.objects["Node", "", "n2"]
    cluster.wait_for("whole", request("gpu"))
    cluster.see(NODES, {**n2, "spec": {"unschedulable": True}})
    assert (
        remedies(answer(tmp_path, cluster, "pod", "whole"))["Uncordon"] == "node n2, if it was not cordoned"
    )
    cluster.see(NODES, {**n2, "spec": {"taints": [{"key": "own", "effect": "NoSchedule"}]}})
    assert "node taint own" in remedies(answer(tmp_path, cluster, "pod", "whole"))["TolerateTaint"]
    cluster.see(NODES, {**n2, "spec": {}})
    cluster.see(NAMESPACES, {"metadata": {"name": "team"}})
    resources = [{"name": "gpus", "deviceClass": "gpu", "limit": 0}]
    cluster.see(
        QUOTAS, {"metadata": {"name": "q"}, "spec": {"namespaceSelector": {}, "resources": resources}}
    )
    found = answer(tmp_path, cluster, "pod", "whole")
    assert found["reason"] == "ExceedsLimit"
    assert remedies(found) == {"RaiseLimit": "AcceleratorQuota q, resource gpus: a limit of 1"}


def test_what_nobody_will_serve_says_why(tmp_path: Path) -> None:
    """Each has a reason of its own, and no remedy is tried."""
    cluster = two_cards()
    cluster.device_class("theirs", "true", other="label")
    cluster.claim("alone")
    cluster.wait_for("unknown", request("gqu"))
    cluster.claim("mixed", request("gpu"), request("theirs"))
    cluster.claim("theirs", request("theirs"))
    cluster.claim("gated")
    cluster.pod("gated", "gated", gates=["kueue.x-k8s.io/admission"])
    cluster.pod("plain")
    cluster.pod("early", "not-made-yet")
    for what, name, reason in (
        ("claim", "alone", "NoPod"),
        ("claim", "unknown", "UnknownClass"),
        ("claim", "mixed", "MixedClasses"),
        ("claim", "theirs", "NotManaged"),
        ("claim", "gated", "NotReady"),
        ("pod", "gated", "OtherGates"),
        ("pod", "plain", "NoClaims"),
        ("pod", "early", "NoClaim"),
    ):
        found = answer(tmp_path, cluster, what, name)
        assert (found["reason"], found["remedies"]) == (reason, []), name


def test_a_pod_of_a_group_that_waits_as_a_whole_says_so(tmp_path: Path) -> None:
    """It would fit by itself, and is not served before its group can be."""
    cluster = two_cards()
    for name, least in (("flawed", "two"), ("few", "2")):
        cluster.claim(name, request("gpu"))
        raw = cluster.pod(name, name)
        raw["metadata"]["labels"] = {"apportion.dev/pod-group": name}
        raw["metadata"]["annotations"] = {"apportion.dev/pod-group-min-count": least}
        cluster.see(PODS, raw)
    for what in ("pod", "claim"):
        found = answer(tmp_path, cluster, what, "flawed")
        assert (found["reason"], found["remedies"]) == ("BrokenGroup", [])
        assert "metadata.annotations[apportion.dev/pod-group-min-count] is 'two'" in found["message"]
    found = answer(tmp_path, cluster, "pod", "few")
    assert (found["reason"], found["message"]) == (
        "GroupIncomplete",
        "group team/few has 1 of at least 2 pods",
    )


def test_what_is_served_says_where_and_what_would_be_served_says_so(tmp_path: Path) -> None:
    """Exit status 0: there is nothing to do."""
    cluster = two_cards()
    cluster.wait_for("soon", request("gpu"))
    found = answer(tmp_path, cluster, "pod", "holder")
    assert [(row["node"], row["device"], row["allocatedBy"]) for row in found["devices"]] == [
        ("n1", f"{GPU}/n1/gpu-0-mig-3g40gb-9-0", "apportion-operator")
    ]
    assert answer(tmp_path, cluster, "claim", "soon")["reason"] == "Fits"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"status": {"phase": "Succeeded"}}, "has ended"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "is being deleted"),
    ],
)
def test_a_pod_whose_claim_went_with_its_end_waits_for_nothing(
    tmp_path: Path, change: Json, said: str
) -> None:
    """Controller-manager deletes the claim of a pod that has ended, and makes no other one."""
    cluster = two_cards()
    raw = cluster.pod("over", "gone", spec={"nodeName": "n1"})
    cluster.see(PODS, {**raw, **change, "metadata": raw["metadata"] | change.get("metadata", {})})
    found = answer(tmp_path, cluster, "pod", "over")
    assert found["reason"] == "NotReady"
    assert found["message"] == f"pod team/over {said}, and its claim for gone is gone"


def test_a_name_that_is_not_there_ends_with_1_and_a_suggestion(tmp_path: Path) -> None:
    """As kubectl does, and with what was probably meant."""
    result = ask(tmp_path, two_cards(), "claim", "hold")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no claim team/hold; did you mean held?" in result.stderr
    assert ask(tmp_path, two_cards(), "node", "n1").exit_code == 2


def test_the_text_fits_80_columns_and_has_the_remedies(tmp_path: Path) -> None:
    """People read the nodes, the nearest miss and the remedies; scripts the reason."""
    cluster = two_cards()
    cluster.wait_for("two", request("gpu", count=2))
    text = ask(tmp_path, cluster, "claim", "two").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "nearest miss" in text
    assert "- AskForFewer: claim team/two" in text
    assert ask(tmp_path, cluster, "claim", "two", "-o", "name").stdout == "NotAllocated\n"
