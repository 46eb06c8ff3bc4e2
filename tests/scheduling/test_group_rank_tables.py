"""HCCL's rank table of a group's chips on all servers, for the pods that ask for it before they start."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.dra.groupmembership import MODE, MOST, TOPOLOGY
from apportion.dra.pod import HCCL_RANK_TABLE, RANK_TABLE
from apportion.scheduling.writing.ranktables import RankTables
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.podgroups import member

RACK, BLOCK = "example.com/rack", "example.com/block"
INDEX = "batch.kubernetes.io/job-completion-index"


def npu(number: int, node: str, **more: str | int) -> Json:
    """Return a whole NPU with an address."""
    known: dict[str, str | int] = {"type": "npu", "deviceIP": f"{node}.{number}", **more}
    typed = {name: {"int" if isinstance(value, int) else "string": value} for name, value in known.items()}
    return {
        "name": f"npu-{number}",
        "attributes": {name: value for name, value in typed.items() if value != {"string": ""}},
    }


class Servers:
    """Nodes with NPUs, and pods of a group that have got them."""

    def __init__(self, client: Client, *nodes: str, **more: str | int) -> None:
        self.world = ObservedCluster()
        self.world.device_class("gpu")
        for node in nodes:
            self.node(node)
            self.publish(node, **more)
        self.tables = RankTables(self.world.snapshot, self.world.recorder(client))

    def node(self, name: str, **labels: str) -> None:
        self.world.node(name, cpu="64", **labels)

    def publish(self, node: str, *, count: int = 2, **more: str | int) -> None:
        devices = [npu(number, node, **more) for number in range(count)]
        self.world.slice(node, f"{node}-devices", {"devices": devices}, 1)

    def runs(
        self,
        name: str,
        node: str,
        *devices: str,
        pods: int = 2,
        asks: str = "HCCL",
        said: Mapping[str, str] | None = None,
    ) -> None:
        """Let a pod of the group have devices of a node; `said`: further annotations."""
        claim = self.world.claim(name, request("gpu", count=len(devices)))
        self.world.allocate(claim, node, *devices)
        member(self.world, name, name, least=str(pods), said={RANK_TABLE: asks, **(said or {})})

    def made(self) -> dict[str, Json]:
        """Return the tables by name of the pod."""
        pods = sorted(self.world.snapshot.pods.values(), key=lambda pod: pod.name)
        found = self.tables.of(pods)
        return {pod.name: json.loads(found[pod.uid]) for pod in pods if pod.uid in found}

    def ranks(self) -> dict[str, list[str]]:
        """Return server and physical id of each rank, the same for all pods, in the order of ranks."""
        tables = self.made().values()
        [text] = {json.dumps(table) for table in tables}
        rows: Sequence[Any] = [
            (int(row["rank_id"]), server["server_id"], row["device_id"])
            for server in json.loads(text)["server_list"]
            for row in server["device"]
        ]
        return {"ranks": [f"{server}/{device}" for _, server, device in sorted(rows)]}


async def test_each_pod_finds_all_chips_of_its_group(unanswered: Client) -> None:
    """Two servers; ranks count pods by their indexes, whatever their names and nodes are."""
    made = Servers(unanswered, "a", "b")
    made.runs("x", "a", "npu-0", "npu-1", said={INDEX: "1"})
    made.runs("y", "b", "npu-1", "npu-0", said={INDEX: "0"})
    tables = made.made()
    assert tables["x"] == tables["y"]
    assert tables["x"]["server_count"] == "2"
    assert tables["x"]["server_list"][0] == {
        "server_id": "b",
        "device": [
            {"device_id": "0", "device_ip": "b.0", "rank_id": "0"},
            {"device_id": "1", "device_ip": "b.1", "rank_id": "1"},
        ],
    }
    assert made.ranks() == {"ranks": ["b/0", "b/1", "a/0", "a/1"]}


async def test_pods_without_indexes_have_ranks_in_the_order_of_the_ladder(unanswered: Client) -> None:
    """Those of one block follow each other, in it those of one rack, whatever their names say; two pods of a node are one server."""
    made = Servers(unanswered, "a", "b", "c")
    made.world.policy(groupLadder=[{"nodeLabel": RACK}, {"nodeLabel": BLOCK}])
    for node, block, rack in (("a", "2", "r1"), ("b", "1", "r9"), ("c", "2", "r0")):
        made.node(node, **{RACK: rack, BLOCK: block})
    made.runs("p0", "a", "npu-0", pods=4)
    made.runs("p1", "b", "npu-0", "npu-1", pods=4)
    made.runs("p2", "c", "npu-0", "npu-1", pods=4)
    made.runs("p3", "a", "npu-1", pods=4)
    assert made.ranks() == {"ranks": ["b/0", "b/1", "c/0", "c/1", "a/0", "a/1"]}


async def test_the_level_that_a_group_asks_for_counts_as_the_widest(unanswered: Client) -> None:
    """It is the annotation's alone: no policy names it."""
    made = Servers(unanswered, "a", "b", "c")
    for node, rack in (("a", "2"), ("b", "1"), ("c", "2")):
        made.node(node, **{RACK: rack})
    asked = {TOPOLOGY: RACK, MODE: "Preferred"}
    for number, node in enumerate("abc"):
        made.runs(f"p{number}", node, "npu-0", pods=3, said=asked)
    assert made.ranks() == {"ranks": ["b/0", "a/0", "c/0"]}


async def test_who_does_not_ask_has_no_table(unanswered: Client) -> None:
    """Nor an Event."""
    made = Servers(unanswered, "a", "b")
    made.runs("p0", "a", "npu-0", asks="")
    made.runs("p1", "b", "npu-0")
    assert made.made().keys() == {"p1"}
    assert made.world.warned == []


async def test_super_pods_have_the_template_with_their_ids(unanswered: Client) -> None:
    """Two servers of one super pod."""
    made = Servers(unanswered, "a", "b", superPodId=7, superDeviceId=11)
    made.runs("p0", "a", "npu-0")
    made.runs("p1", "b", "npu-0")
    table = made.made()["p0"]
    assert table["version"] == "1.2"
    assert table["super_pod_list"] == [
        {"super_pod_id": "7", "server_list": [{"server_id": "a"}, {"server_id": "b"}]}
    ]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (
            {"deviceIP": ""},
            {},
            "npu-0 of node a has no attribute deviceIP: its node's /etc/hccn.conf has no address_0",
        ),
        ({"superPodId": 7, "superDeviceId": 1}, {}, "some chips are in a super pod and some are in none"),
        ({"superPodId": 7}, {"superPodId": 7}, "npu-0 of node a has no attribute superDeviceId"),
        ({"type": "vnpu"}, {}, "npu-0 of node a is a part of a chip"),
        ({"type": "gpu"}, {"type": "gpu"}, "the pods have 0 whole NPU together"),
    ],
    ids=["no address", "half a super pod", "no id there", "a part", "other devices"],
)
async def test_a_table_that_hccl_could_not_read_is_not_written_and_an_event_says_why(
    unanswered: Client, first: dict[str, str | int], second: dict[str, str | int], words: str
) -> None:
    """It names the chip and its node, and reaches each pod that asked."""
    made = Servers(unanswered, "a", "b")
    made.publish("a", **first)
    made.publish("b", **second)
    made.runs("p0", "a", "npu-0")
    made.runs("p1", "b", "npu-0")
    assert made.made() == {}
    messages = [(name, reason) for name, reason, text in made.world.messages if words in text]
    assert messages == [("p0", "NoRankTable"), ("p1", "NoRankTable")]


async def test_on_one_server_nobody_needs_addresses(unanswered: Client) -> None:
    """HCCL takes what is on the server."""
    made = Servers(unanswered, "a", deviceIP="")
    made.runs("p0", "a", "npu-0")
    made.runs("p1", "a", "npu-1")
    assert made.ranks() == {"ranks": ["a/0", "a/1"]}


@pytest.mark.parametrize(
    ("said", "pods", "words"),
    [
        ({}, 1, "group team/g starts with 1 pods, and has 2 now"),
        ({MOST: "3"}, 2, "and 3 at most: a table has all ranks from the beginning"),
        ({RANK_TABLE: "NCCL"}, 2, f"metadata.annotations[{RANK_TABLE}]: expected HCCL, not 'NCCL'"),
    ],
    ids=["not all are needed", "elastic", "another library"],
)
async def test_a_group_whose_ranks_nobody_knows_has_no_table(
    unanswered: Client, said: dict[str, str], pods: int, words: str
) -> None:
    """Pods that start later would not be in it."""
    made = Servers(unanswered, "a", "b")
    for name, node in (("p0", "a"), ("p1", "b")):
        made.runs(name, node, "npu-0", pods=pods, said=said)
    assert made.made() == {}
    assert any(words in text for _, _, text in made.world.messages)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pods", "chips", "fits"), [(32, 32, True), (64, 32, False), (250, 1, True), (300, 1, False)]
)
async def test_a_table_is_not_larger_than_annotations_may_be(
    unanswered: Client, pods: int, chips: int, *, fits: bool
) -> None:
    """Of one pod, or of all together: the API server would refuse the pod's gate with it, and again, for ever."""
    names = [f"{'n' * 50}-{number}" for number in range(pods)]
    made = Servers(unanswered)
    for name in names:
        made.node(name)
        made.publish(name, count=chips)
        made.runs(name, name, *(f"npu-{number}" for number in range(chips)), pods=pods)
    [pod] = [each for each in made.world.snapshot.pods.values() if each.name == names[0]]
    assert len(made.tables.of([pod])) == fits
    assert ((pod.name, "NoRankTable") in made.world.warned) == (not fits)


class Loss:
    """Two pods of a group without gates, of which p1 loses a device before it starts."""

    def __init__(self, client: Client, *having: str, **more: str | int) -> None:
        """`having`: the pods for which a rank table was written."""
        made = Servers(client, "a", "b", **more)
        self.world = made.world
        self.cycle = made.world.cycle(client)
        self.having = having
        for name, node in (("p0", "a"), ("p1", "b")):
            made.runs(name, node, "npu-0")
            self.raw = self.ungate(name)
        claim = next(each for each in made.world.snapshot.claims.values() if each.name == "p1")
        self.bare: Json = {"metadata": {"name": "p1", "namespace": "team", "uid": claim.uid}}
        self.bare["spec"] = {"devices": {"requests": [request("gpu")]}}

    def ungate(self, name: str) -> Json:
        """Show a pod as it is without our gate, with its table."""
        said = {RANK_TABLE: "HCCL", **({HCCL_RANK_TABLE: "{}"} if name in self.having else {})}
        return member(self.world, name, name, gates=(), said=said)

    def warned(self) -> list[tuple[str, str]]:
        """Return who heard what since p1 lost its device, which kube-scheduler refused."""
        user = {"resource": "pods", "name": "p1", "uid": self.raw["metadata"]["uid"]}
        self.world.allocate(self.bare, "b", "npu-0", reservedFor=[user])
        self.cycle.once()
        assert self.world.warned == []
        self.world.see(CLAIMS, {"metadata": self.bare["metadata"], "spec": self.bare["spec"]})
        self.cycle.once()
        return [(name, reason) for name, reason in self.world.warned if reason == "RankTableOutdated"]


async def test_pods_that_have_a_table_hear_that_a_chip_of_it_was_lost_before_its_pod_started(
    unanswered: Client,
) -> None:
    """kube-scheduler refused its node: what the others have read is not true any more."""
    assert sorted(Loss(unanswered, "p0", "p1").warned()) == [
        ("p0", "RankTableOutdated"),
        ("p1", "RankTableOutdated"),
    ]
    assert Loss(unanswered, "p0").warned() == [("p0", "RankTableOutdated")]


async def test_nobody_hears_of_a_table_that_was_never_written(unanswered: Client) -> None:
    """The pods asked for one, and an Event said why there was none."""
    assert Loss(unanswered).warned() == []


async def test_a_device_that_no_table_names_makes_none_untrue(unanswered: Client) -> None:
    """The table of two chips says nothing of a device of another kind beside them."""
    assert Loss(unanswered, "p0", "p1", type="gpu").warned() == []
    assert Loss(unanswered, "p0", "p1", type="vnpu").warned() == []


async def test_a_pod_of_no_group_hears_of_its_own_table(unanswered: Client) -> None:
    """It is the table's only reader."""
    loss = Loss(unanswered, "p0", "p1")
    raw = loss.world.pod("p1", "p1")
    raw["metadata"]["annotations"] = {RANK_TABLE: "HCCL", HCCL_RANK_TABLE: "{}"}
    loss.world.see(PODS, raw)
    assert loss.warned() == [("p1", "RankTableOutdated")]
