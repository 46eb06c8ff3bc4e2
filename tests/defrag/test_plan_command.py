"""`apportion defrag plan`: what it says of clusters in files, its exit status, and who is left alone."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from apportion.cli.answers.defrag import app
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.dra.groupmembership import GROUP, LEAST
from apportion.scheduling.defrag import movables
from tests.cli.worlds import Cluster, profile_request
from tests.observedcluster import GPU, request

Json = dict[str, Any]
NOON = "2026-01-01T12:00:00Z"


def empty(nodes: int = 2) -> Cluster:
    """Return nodes with a card each, and classes for whole cards and partitions."""
    cluster = Cluster()
    for number in range(1, nodes + 1):
        cluster.node(f"n{number}", **{"kubernetes.io/hostname": f"n{number}"})
        cluster.card(f"n{number}")
    kind = f'device.attributes["{GPU}"].type'
    cluster.device_class("gpu", f'{kind} == "gpu"')
    cluster.device_class("mig", f'{kind} == "mig"')
    return cluster


def runs(
    cluster: Cluster, name: str, node: str, device: str, *, owner: str = "ReplicaSet", **more: Any
) -> None:
    """Let a pod run that has one device."""
    profile = next(each for each in ("1g.10gb", "3g.40gb", "7g.80gb") if each.replace(".", "") in device)
    raw = cluster.claim(name, profile_request(profile))
    pods = [{"resource": "pods", "name": name, "uid": f"uid-team-pods-{name}"}]
    cluster.allocate(raw, node, device, reservedFor=pods, timestamp=more.pop("since", "2026-01-01T00:00:00Z"))
    pod = cluster.pod(name, name, spec={"nodeName": node, **more.pop("spec", {})})
    pod["status"] = {"phase": "Running"}
    if owner:
        pod["metadata"]["ownerReferences"] = [{"kind": owner, "name": "o", "uid": "o", "controller": True}]
    pod["metadata"] |= more
    cluster.see(PODS, pod)


def scattered(**more: Any) -> Cluster:
    """Return two cards with a small partition on each."""
    cluster = empty()
    runs(cluster, "a", "n1", "gpu-0-mig-1g10gb-19-3", **more)
    runs(cluster, "b", "n2", "gpu-0-mig-1g10gb-19-0", since="2026-01-01T11:00:00Z")
    return cluster


def ask(tmp_path: Path, cluster: Cluster, *options: str) -> Result:
    where = ["plan", "--world", str(cluster.write(tmp_path / "w")), "--at", NOON]
    return CliRunner().invoke(app, [*where, *options], env={"COLUMNS": "80"})


def file(tmp_path: Path, *requests: Json) -> str:
    raw = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "big", "namespace": "team"},
        "spec": {"devices": {"requests": [*requests]}},
    }
    (tmp_path / "f").write_text(yaml.safe_dump(raw))
    return str(tmp_path / "f")


def test_a_whole_card_is_freed_by_the_younger_of_two_pods(tmp_path: Path) -> None:
    """Either move frees a card; twelve hours of work would be lost by one, one hour by the other."""
    done = ask(tmp_path, scattered(), "--free-cards", "1", "-o", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    [move] = found["moves"]
    assert (move["pods"], move["from"]["node"], move["to"]["node"]) == (["team/b"], "n2", "n1")
    assert (found["restarts"], found["cost"], found["proven"]) == (1, 3660, True)
    assert found["cards"] == ["gpu.apportion.dev/n2/gpu-0"]
    assert found["value"] is not None


def test_room_is_made_for_the_claims_of_a_file(tmp_path: Path) -> None:
    """A whole card fits nowhere; after one move it does, where the move left."""
    done = ask(tmp_path, scattered(), "--for", file(tmp_path, request("gpu")), "-o", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [move["pods"] for move in found["moves"]] == [["team/b"]]
    assert found["served"] == {"node": "n2", "devices": ["gpu.apportion.dev/n2/gpu-0"]}


def test_what_fits_needs_no_moves(tmp_path: Path) -> None:
    """Nothing to do is a plan, too."""
    done = ask(tmp_path, scattered(), "--for", file(tmp_path, profile_request("3g.40gb")))
    assert (done.exit_code, done.stdout) == (0, "nothing has to move: it fits now\n")


def test_no_plan_is_status_1_and_says_why_the_claims_wait(tmp_path: Path) -> None:
    """Two cards on one node there are not, also after moves."""
    done = ask(tmp_path, scattered(), "--for", file(tmp_path, request("gpu", count=2)))
    assert done.exit_code == 1
    assert "no moves lead there" in done.stdout
    assert "NotAllocated" in done.stdout


def test_fewer_cards_than_wanted_are_shown_with_status_1(tmp_path: Path) -> None:
    """Two halves need one card at least."""
    done = ask(tmp_path, scattered(), "--free-cards", "2")
    assert done.exit_code == 1
    assert "then 1 of 2 more whole cards are free" in done.stdout
    none = ask(tmp_path, scattered(), "--free-cards", "1", "--most-restarts", "0")
    assert (none.exit_code, "no moves lead there" in none.stdout) == (1, True)


ALONE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "other"}}}
        ]
    }
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, ""),
        ({"owner": ""}, movables.UNMADE),
        ({"owner": "DaemonSet"}, movables.UNMADE),
        ({"labels": {GROUP: "g"}, "annotations": {LEAST: "1"}}, movables.GROUPED),
        ({"deletionTimestamp": NOON}, movables.ENDING),
        ({"spec": {"affinity": ALONE}}, movables.RELATED),
    ],
)
def test_who_may_not_move_stays_and_is_counted(tmp_path: Path, more: Json, reason: str) -> None:
    """One pod must stay, so the other one moves although its work is older."""
    cluster = empty()
    runs(cluster, "a", "n1", "gpu-0-mig-1g10gb-19-3")
    runs(cluster, "b", "n2", "gpu-0-mig-1g10gb-19-0", since="2026-01-01T11:00:00Z", **more)
    done = ask(tmp_path, cluster, "--free-cards", "1", "-o", "json")
    found = json.loads(done.stdout)
    assert [move["pods"] for move in found["moves"]] == [["team/a" if reason else "team/b"]]
    assert found["leftAlone"] == ({reason: 1} if reason else {})


def test_a_card_is_not_freed_by_the_restart_of_a_pod_that_only_looks_at_it(tmp_path: Path) -> None:
    """It passed for the one that has the partition; that one may not move, so the other card is freed."""
    cluster = empty()
    runs(cluster, "a", "n1", "gpu-0-mig-1g10gb-19-3")
    runs(cluster, "b", "n2", "gpu-0-mig-1g10gb-19-0", owner="")
    runs(cluster, "monitor", "n2", "gpu-0-mig-1g10gb-19-0", since="2026-01-01T11:59:00Z")
    raw = cluster.seen[CLAIMS, "team", "monitor"]
    raw["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    raw["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    cluster.see(CLAIMS, raw)
    found = json.loads(ask(tmp_path, cluster, "--free-cards", "1", "-o", "json").stdout)
    assert [(move["pods"], move["to"]["node"]) for move in found["moves"]] == [(["team/a"], "n2")]
    assert found["leftAlone"] == {movables.UNMADE: 1, movables.LOOKING: 1}


def test_a_node_that_does_not_suit_a_pod_is_no_place_for_it(tmp_path: Path) -> None:
    """The younger pod's node selector leaves it where it is."""
    cluster = empty()
    runs(cluster, "a", "n1", "gpu-0-mig-1g10gb-19-3")
    selector = {"nodeSelector": {"kubernetes.io/hostname": "n2"}}
    runs(cluster, "b", "n2", "gpu-0-mig-1g10gb-19-0", since="2026-01-01T11:00:00Z", spec=selector)
    found = json.loads(ask(tmp_path, cluster, "--free-cards", "1", "-o", "json").stdout)
    assert [(move["pods"], move["to"]["node"]) for move in found["moves"]] == [(["team/a"], "n2")]


def test_cpu_beside_the_new_devices_counts(tmp_path: Path) -> None:
    """The first node has no core left for another pod, so its own pod goes."""
    cluster = empty()
    cores = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "7"}}}]}
    runs(cluster, "a", "n1", "gpu-0-mig-1g10gb-19-3")
    cluster.pod("filler", spec={"nodeName": "n1", **cores})
    runs(cluster, "b", "n2", "gpu-0-mig-1g10gb-19-0", since="2026-01-01T11:00:00Z")
    found = json.loads(ask(tmp_path, cluster, "--free-cards", "1", "-o", "json").stdout)
    assert [(move["pods"], move["to"]["node"]) for move in found["moves"]] == [(["team/a"], "n2")]


def test_who_declares_to_end_soon_is_left_to_end(tmp_path: Path) -> None:
    """The younger pod has half a minute of its hour and a minute left: what it has is free soon anyway."""
    cluster = empty()
    runs(cluster, "a", "n1", "gpu-0-mig-1g10gb-19-3", since="2026-01-01T10:00:00Z")
    annotations = {"apportion.dev/max-runtime": "61m"}
    runs(cluster, "b", "n2", "gpu-0-mig-1g10gb-19-0", since="2026-01-01T11:00:00Z", annotations=annotations)
    found = json.loads(ask(tmp_path, cluster, "--free-cards", "1", "-o", "json").stdout)
    assert [move["pods"] for move in found["moves"]] == [["team/a"]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "either --for FILE or --free-cards N"),
        (("--for", "x", "--free-cards", "1"), "either --for FILE or --free-cards N"),
        (("--for", "nowhere.yaml"), "nowhere.yaml"),
        (("--for", "x", "--most-restarts", "1"), "goes with --free-cards"),
        (("--free-cards", "1", "--at", "noon"), "--at noon"),
        (("--free-cards", "1", "-o", "xml"), "-o xml"),
    ],
)
def test_bad_input_is_status_2_and_named(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    """One sentence on standard error."""
    done = CliRunner().invoke(
        app, ["plan", "--world", str(scattered().write(tmp_path / "w")), *options], env={"COLUMNS": "200"}
    )
    assert done.exit_code == 2
    assert said in done.stderr


def test_the_table_is_readable_at_80_columns_and_names_are_the_pods(tmp_path: Path) -> None:
    """Pods, where from and where to; and in which order."""
    done = ask(tmp_path, scattered(), "--free-cards", "1")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "team/b" in done.stdout
    assert "then 1 more whole cards are free: n2/gpu-0" in done.stdout
    assert ask(tmp_path, scattered(), "--free-cards", "1", "-o", "name").stdout == "team/b\n"


@pytest.mark.parametrize("wanted", ["--for", "--free-cards"])
def test_a_pod_whose_node_is_gone_moves_nowhere(tmp_path: Path, wanted: str) -> None:
    """Its claim is allocated until controller-manager has deleted the pod, minutes after the Node; the others move as without it."""
    cluster = empty(nodes=3)
    for name in ("a", "b", "c"):
        runs(cluster, name, f"n{'abc'.index(name) + 1}", "gpu-0-mig-1g10gb-19-3")
    items = [
        each
        for each in cluster.as_list()["items"]
        if each["kind"] == "Pod"
        or "n1" not in (each["metadata"]["name"], each.get("spec", {}).get("nodeName"))
    ]
    (tmp_path / "w").write_text(json.dumps({"kind": "List", "items": items}))
    goal = file(tmp_path, request("gpu")) if wanted == "--for" else "1"
    words = ["plan", "--world", str(tmp_path / "w"), "--at", NOON, wanted, goal, "-o", "json"]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert done.exit_code == 0, done.output
    [move] = json.loads(done.stdout)["moves"]
    assert move["pods"] in (["team/b"], ["team/c"])
