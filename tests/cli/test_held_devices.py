"""What the operator holds beside allocations, as the commands show it: who waits for it, who may use it, what is left without it."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from apportion.cli.answers.fit import fit
from apportion.cli.answers.free import free
from apportion.cli.answers.status import status
from apportion.cli.answers.who import who
from apportion.cli.answers.why import why
from apportion.cli.world.anonymous import anonymized
from apportion.cluster.kinds import PODS
from apportion.dra.runtime import MAX_RUNTIME
from tests.cli.worlds import Cluster, two_cards
from tests.observedcluster import GPU, request

app = typer.Typer()
for command in (fit, free, status, who, why):
    app.command(command.__name__)(command)
Json = dict[str, Any]
TIDY = {"kind": "DefragPolicy", "name": "tidy", "uid": "uid-tidy"}
LARGE = {
    "kind": "ResourceClaim",
    "namespace": "team",
    "name": "large",
    "uid": "uid-team-resourceclaims-large",
}


def ask(tmp_path: Path, cluster: Cluster, *options: str) -> Result:
    path = cluster.write(tmp_path / "w")
    return CliRunner().invoke(app, [*options, "--world", str(path)], env={"COLUMNS": "80"})


def answer(tmp_path: Path, cluster: Cluster, *options: str) -> Json:
    result = ask(tmp_path, cluster, *options, "-o", "json")
    assert result.exit_code < 2, result.stderr
    found: Json = json.loads(result.stdout)
    return found


def reason(tmp_path: Path, cluster: Cluster, claim: str) -> str:
    found: str = answer(tmp_path, cluster, "why", "claim", f"team/{claim}")["reason"]
    return found


def test_a_claim_waits_for_devices_that_are_held_for_moves(tmp_path: Path) -> None:
    """It would be served without: the text says what holds which devices for whom, and the remedy is the end of that."""
    cluster = two_cards()
    cluster.hold("Move", TIDY, ("n2", "gpu-0"))
    cluster.wait_for("whole", request("gpu"))
    found = answer(tmp_path, cluster, "why", "claim", "team/whole")
    assert found["reason"] == "DevicesHeld"
    assert found["message"] == (
        "claim team/whole would fit on node n2, but devices are held there: DeviceHold move holds 1 device for pods that"
        " DefragPolicy tidy moves, until its moves have ended"
    )
    assert found["remedies"][0] == {
        "remedy": "WaitFor",
        "message": "DeviceHold move: when the devices are held no more",
        "node": "n2",
    }
    text = ask(tmp_path, cluster, "why", "claim", "team/whole").stdout
    assert "DevicesHeld: claim team/whole would fit on node n2" in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_would_not_fit_without_what_is_held_names_the_holder_all_the_same(tmp_path: Path) -> None:
    """No node has two whole cards: that one is held changes nothing, and the funnel says by what."""
    cluster = two_cards()
    cluster.hold("Move", TIDY, ("n2", "gpu-0"))
    cluster.wait_for("two", request("gpu", count=2))
    found = answer(tmp_path, cluster, "why", "claim", "team/two")
    assert found["reason"] == "NotAllocated"
    assert "holds" not in found
    cluster.wait_for("one", request("gpu"))
    groups = answer(tmp_path, cluster, "why", "claim", "team/one")["explanation"]["groups"]
    assert "DeviceHold move" in json.dumps(groups)


def test_only_holds_that_keep_something_from_it_are_named(tmp_path: Path) -> None:
    """Two of three keep nothing from it."""
    cluster = two_cards()
    cluster.node("n3")
    cluster.card("n3")
    cluster.hold("Move", TIDY, ("n1", "gpu-0-mig-1g10gb-19-6"))
    for name, node in (("one", "n2"), ("two", "n3")):
        cluster.claim(name, request("gpu"))
        cluster.hold(
            "Preemption", {**LARGE, "name": name, "uid": f"uid-team-resourceclaims-{name}"}, (node, "gpu-0")
        )
    cluster.wait_for("whole", request("gpu"))
    found = answer(tmp_path, cluster, "why", "claim", "team/whole")
    assert found["message"].count("DeviceHold") == 1
    assert "for which pods are evicted" in found["message"]
    assert [each["name"] for each in found["holds"]] in (["preemption-one"], ["preemption-two"])


def test_who_it_is_held_for_gets_it_and_reads_what_it_is(tmp_path: Path) -> None:
    """A claim is served from what is held for it as soon as that is free; until then it says what is held for it."""
    cluster = two_cards()
    cluster.hold("Preemption", LARGE, ("n1", "gpu-0"))
    cluster.hold("Move", TIDY, ("n2", "gpu-0"))
    cluster.wait_for("large", request("gpu"))
    # n1's card has a claim on it still, and what is held there for the same claim does not hold n2's.
    found = answer(tmp_path, cluster, "why", "claim", "team/large")
    assert found["reason"] == "DevicesHeld"
    cluster.hold("Preemption", LARGE, ("n2", "gpu-0"))
    cluster.holds.drop("move")
    del cluster.objects["DeviceHold", "", "move"]
    assert reason(tmp_path, cluster, "large") == "Fits"

    cluster.hold("Preemption", LARGE, ("n1", "gpu-0"))
    taken = cluster.claim("taken", request("gpu"))
    cluster.allocate(taken, "n2", "gpu-0")
    found = answer(tmp_path, cluster, "why", "claim", "team/large")
    assert found["reason"] == "NotAllocated"
    assert [each["name"] for each in found["holds"]] == ["preemption-large"]
    assert "held for it: DeviceHold preemption-large" in ask(
        tmp_path, cluster, "why", "claim", "team/large"
    ).stdout.replace("\n", " ")


@pytest.mark.slow
def test_a_reservation_is_used_by_who_ends_before_or_has_a_higher_priority(tmp_path: Path) -> None:
    """As in the operator: the rest waits, also who runs longer, or longer than it says."""
    cluster = two_cards()
    cluster.claim("large", request("gpu", count=2))
    starts = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    cluster.hold("Reservation", LARGE, ("n2", "gpu-0"), starts=starts, priority=100)
    for name, runtime, priority in (
        ("silent", "", 0),
        ("short", "10m", 0),
        ("long", "2h", 0),
        ("equal", "", 100),
        ("urgent", "", 101),
    ):
        cluster.wait_for(name, request("gpu"))
        pod = cluster.objects["Pod", "team", name]
        pod["spec"]["priority"] = priority
        if runtime:
            pod["metadata"]["annotations"] = {MAX_RUNTIME: runtime}
        cluster.see(PODS, pod)
    found = {name: reason(tmp_path, cluster, name) for name in ("silent", "short", "long", "equal", "urgent")}
    assert found == {
        "silent": "DevicesHeld",
        "short": "Fits",
        "long": "DevicesHeld",
        "equal": "DevicesHeld",
        "urgent": "Fits",
    }
    message = answer(tmp_path, cluster, "why", "claim", "team/silent")["message"]
    assert f"for ResourceClaim team/large, which waits and is expected to start at {starts}" in message


def test_a_pod_that_comes_instead_of_one_that_moves_may_have_the_place(tmp_path: Path) -> None:
    """It is known by its controller."""
    cluster = two_cards()
    cluster.hold("Move", TIDY, ("n2", "gpu-0"), controllers=["uid-set"])
    for name in ("instead", "other"):
        cluster.wait_for(name, request("gpu"))
    pod = cluster.objects["Pod", "team", "instead"]
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "uid-set", "controller": True}
    ]
    cluster.see(PODS, pod)
    assert (reason(tmp_path, cluster, "instead"), reason(tmp_path, cluster, "other")) == (
        "Fits",
        "DevicesHeld",
    )


def test_free_counts_what_is_held_by_itself(tmp_path: Path) -> None:
    """It is not left, and would be without the hold; each hold is named."""
    cluster = two_cards()
    assert "held" not in ask(tmp_path, cluster, "free").stdout
    before = {row["device"]: row for row in answer(tmp_path, cluster, "free")["devices"]}
    cluster.hold("Move", TIDY, ("n2", "gpu-0-mig-3g40gb-9-0"), ("n1", "gpu-0-mig-3g40gb-9-0"))
    found = answer(tmp_path, cluster, "free")
    for row in found["devices"]:
        assert row["left"] + row["held"] == before[row["device"]]["left"], row
    assert {row["device"]: row["held"] for row in found["devices"]}["gpu"] == 1
    assert [each["name"] for each in found["holds"]] == ["move"]
    text = ask(tmp_path, cluster, "free").stdout
    assert "left  held  of  nodes" in text
    assert "DefragPolicy tidy" in text


def test_who_and_status_show_the_hold_as_the_holder(tmp_path: Path) -> None:
    """A device that a claim has and that is held, too, is drawn as the claim's."""
    cluster = two_cards()
    cluster.hold("Move", TIDY, ("n2", "gpu-0-mig-1g10gb-19-6"), ("n1", "gpu-0-mig-3g40gb-9-0"))
    rows = answer(tmp_path, cluster, "who", "n2")["holders"]
    assert [(row["claim"], row["device"]) for row in rows] == [
        ("DeviceHold move", f"{GPU}/n2/gpu-0-mig-1g10gb-19-6")
    ]
    assert "DefragPolicy tidy" in rows[0]["note"]
    shown = {
        row["node"]: (row["slices"], row["holders"]) for row in answer(tmp_path, cluster, "status")["cards"]
    }
    assert shown["n2"] == ("......A.", {"A": "DeviceHold move"})
    letters = {claim: letter for letter, claim in shown["n1"][1].items()}
    assert shown["n1"][0] == letters["team/held"] * 4 + "...."


def test_a_hold_that_cannot_be_read_is_named_and_holds_nothing(tmp_path: Path) -> None:
    """Everything else is answered."""
    cluster = two_cards()
    cluster.hold("Wish", TIDY, ("n2", "gpu-0"))
    result = ask(tmp_path, cluster, "free", "-o", "json")
    assert result.exit_code == 0
    assert result.stderr.startswith("left out: DeviceHold wish-tidy: spec.purpose: ")
    assert json.loads(result.stdout)["holds"] == []


@pytest.mark.parametrize("command", ["status", "free", "who n1"])
@pytest.mark.parametrize("amount", ["nonsense", "-1", ""])
def test_a_hold_of_an_amount_that_is_none_is_named_and_holds_nothing(
    tmp_path: Path, command: str, amount: str
) -> None:
    """A CRD of an earlier release lets anybody write it who may write the kind."""
    cluster = two_cards()
    share = {"driver": GPU, "pool": "n2", "device": "gpu-0", "shareID": "s"}
    cluster.hold("Move", TIDY, devices=[{**share, "consumedCapacity": {"memory": amount}}])
    result = ask(tmp_path, cluster, *command.split(), "-o", "json")
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("left out: DeviceHold move: spec.devices[0].consumedCapacity.memory: ")
    assert "DeviceHold" not in result.stdout


def test_without_names_all_is_as_before(tmp_path: Path) -> None:
    """Neither nodes nor claims nor policies are named, and the claim waits for the same reason."""
    cluster = two_cards()
    cluster.hold("Move", {**TIDY, "name": "acme-tidy"}, ("n2", "gpu-0"), controllers=["acme-set"])
    cluster.wait_for("whole", request("gpu"))
    made = anonymized([*cluster.objects.values()])
    text = json.dumps([each for each in made if each["kind"] == "DeviceHold"])
    assert "acme" not in text
    assert '"n2"' not in text
    (tmp_path / "a").write_text(json.dumps({"kind": "List", "items": made}))
    [name] = [
        each["metadata"]["name"]
        for each in made
        if each["kind"] == "Pod" and not each["spec"].get("nodeName")
    ]
    [namespace] = {each["metadata"]["namespace"] for each in made if each["kind"] == "Pod"}
    result = CliRunner().invoke(
        app, ["why", "pod", f"{namespace}/{name}", "--world", str(tmp_path / "a"), "-o", "json"]
    )
    assert json.loads(result.stdout)["reason"] == "DevicesHeld"
