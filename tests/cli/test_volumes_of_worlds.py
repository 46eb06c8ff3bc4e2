"""Volumes in what commands and page say: they tie pods to nodes as they do for the operator, where all of them are known."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from typer.testing import CliRunner

from apportion.__main__ import app
from apportion.cli.answers.story import What
from apportion.cli.world.objects import kind_of
from apportion.cluster.client import Client
from apportion.cluster.kinds import VOLUMES
from apportion.web.livecluster import LiveCluster
from apportion.web.storypage import story_page
from testbed.beside import beside
from testbed.eventually import eventually
from tests.cli.worlds import Cluster
from tests.clients import unanswered
from tests.cluster.apiserver import ApiServer, failed
from tests.cluster.userconfig import config
from tests.observedcluster import request
from tests.scheduling.volumes import ZONE, storage_class, volume, volume_claim, with_volume

__all__ = ["unanswered"]

Json = dict[str, Any]
MISSING = "PersistentVolumeClaim data does not exist"
CLAIMS = """
kind: Pod
metadata: {name: f, namespace: team}
spec:
  containers: []
  resourceClaims: [{name: g, resourceClaimTemplateName: t}]
  volumes: [%s]
---
kind: ResourceClaimTemplate
metadata: {name: t, namespace: team}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
"""


def zones() -> Cluster:
    """Return two nodes with a card each in two zones, and a pod with a volume that waits for a card."""
    cluster = Cluster()
    for name, zone in (("n1", "a"), ("n2", "b")):
        cluster.node(name, **{ZONE: zone})
        cluster.card(name)
    cluster.device_class("gpu", 'device.attributes["gpu.apportion.dev"].type == "gpu"')
    storage_class(cluster)
    cluster.wait_for("p", request("gpu"), with_volume())
    return cluster


def tied(cluster: Cluster) -> Cluster:
    """Its volume is in the zone of the second node, which has another one's card."""
    volume(cluster, "b")
    volume_claim(cluster, "pv")
    cluster.allocate(cluster.claim("other"), "n2", "gpu-0")
    return cluster


def why(path: Path, pod: str = "team/p", source: str = "--world") -> Json:
    words = ["why", "pod", pod, "-o", "json", source, str(path)]
    found: Json = json.loads(CliRunner().invoke(app, words).stdout)
    return found


def snapshot(path: Path, into: Path, *options: str) -> Json:
    into.write_text(CliRunner().invoke(app, ["snapshot", "--world", str(path), *options]).stdout)
    found: Json = json.loads(into.read_text())
    return found


async def test_a_pod_is_tied_to_the_zone_of_its_volume(tmp_path: Path, unanswered: Client) -> None:
    """`why` said `Fits` on a node that the operator does not take; in a snapshot, too, as long as that has all volumes."""
    cluster = tied(zones())
    cluster.snapshot.volumes.know(complete=True)
    found = why(cluster.write(tmp_path / "w"))
    cluster.cycle(unanswered).once()
    texts = [text for about, reason, text in cluster.messages if (about, reason) == ("p", "NotAllocated")]
    assert (found["reason"], found["message"]) == ("NotAllocated", texts[0])
    taken = snapshot(tmp_path / "w", tmp_path / "s")
    assert taken["leftOut"] == []
    assert why(tmp_path / "s") == found
    unnamed = snapshot(tmp_path / "s", tmp_path / "u", "--anonymize")
    [pod] = [each["metadata"] for each in unnamed["items"] if each["kind"] == "Pod"]
    assert why(tmp_path / "u", f"{pod['namespace']}/{pod['name']}")["reason"] == "NotAllocated"


def test_a_claim_that_is_not_there_is_named(tmp_path: Path) -> None:
    """kube-scheduler would never bind the pod."""
    cluster = zones()
    volume_claim(cluster, name="unrelated")
    found = why(cluster.write(tmp_path / "w"))
    assert (found["reason"], MISSING in found["message"]) == ("NotAllocated", True)


def test_without_all_volumes_none_ties_a_pod(tmp_path: Path) -> None:
    """A file of kubectl without them, and a snapshot by who may not read them."""
    cluster = tied(zones())
    world = cluster.as_list()
    world["items"] = [
        each for each in world["items"] if each["kind"] not in {"PersistentVolumeClaim", "StorageClass"}
    ]
    (tmp_path / "w").write_text(json.dumps(world))
    assert why(tmp_path / "w")["reason"] == "Fits"
    assert snapshot(tmp_path / "w", tmp_path / "s")["leftOut"] == [
        "persistentvolumeclaims", "persistentvolumes", "storageclasses",
    ]  # fmt: skip
    assert why(tmp_path / "s")["reason"] == "Fits"
    complete = {**cluster.as_list(), "leftOut": ["persistentvolumes"]}
    (tmp_path / "w").write_text(json.dumps(complete))
    assert why(tmp_path / "w")["reason"] == "Fits"


@pytest.mark.parametrize(
    ("volumes", "code"),
    [
        ("{name: v, persistentVolumeClaim: {claimName: data}}", 1),
        ("{name: v, persistentVolumeClaim: {claimName: new}}", 0),
        ("{name: v, ephemeral: {volumeClaimTemplate: {}}}", 0),
        ("{name: v, emptyDir: {}}", 0),
    ],
)
@pytest.mark.parametrize("command", [["fit", "-f"], ["defrag", "plan", "--for"]])
def test_what_a_file_asks_for_is_tied_by_volumes_that_are_there(
    tmp_path: Path, command: list[str], volumes: str, code: int
) -> None:
    """Those that are made with a pod tie it to no node."""
    (tmp_path / "f").write_text(CLAIMS % volumes)
    world = str(tied(zones()).write(tmp_path / "w"))
    found = CliRunner().invoke(app, [*command, str(tmp_path / "f"), "--world", world])
    assert found.exit_code == code, found.output


@pytest.mark.parametrize(("refused", "reason"), [(False, "NotAllocated"), (True, "Fits")])
async def test_a_live_cluster_has_all_that_may_be_read(tmp_path: Path, *, refused: bool, reason: str) -> None:
    """For commands and page; the right that is missing may come later."""

    def fault(asked: web.Request) -> web.Response | None:
        if asked.path == "/version":
            return web.json_response({"major": "1", "minor": "37"})
        return failed(403, "no") if refused and asked.path.endswith(VOLUMES.plural) else None

    cluster = tied(zones())
    async with ApiServer().serving() as server, server.client() as client:
        for raw in cluster.objects.values():
            kind = kind_of(raw)
            assert kind is not None
            server.put(kind, raw)
        server.fault = fault
        said = await asyncio.to_thread(why, config(tmp_path, server), source="--kubeconfig")
        assert said["reason"] == reason
        page = LiveCluster(client, "1.37", frozenset(), frozenset())

        async def shown() -> str:
            if not all(each.synced.is_set() for each in page.reflectors):
                return ""
            found = await page.ask(lambda seen: story_page(seen, What.POD, "team", "p", lambda: 0.0))
            assert found is not None
            return found.story.reason.name if found.story.reason is not None else "served"

        async with beside(page.run()):
            assert await eventually(shown, bool) == reason
            server.fault = lambda _: None
            await eventually(shown, lambda found: found == "NotAllocated")
