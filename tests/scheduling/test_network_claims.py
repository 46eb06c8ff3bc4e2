"""Claims that ask for a NIC's network device: which NICs will do, and how many pods can have one."""

from typing import Any

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, CLASSES, PODS
from apportion.scheduling.writing.gates import Gates
from tests.observedcluster import Json, ObservedCluster
from tests.scheduling.openedgates import opened
from tests.steps import steps

RDMA = "rdma.apportion.dev"


def network(*requests: str, **parameters: Any) -> Json:
    """Return a `config` entry that asks for network devices."""
    body = {"apiVersion": "config.apportion.dev/v1alpha1", "kind": "NetworkConfig", **parameters}
    return {"requests": [*requests], "opaque": {"driver": RDMA, "parameters": body}}


def nics(**offered: bool | None) -> ObservedCluster:
    """Return a cluster with a node that has these NICs; None: its slice says nothing of the interface."""
    made = ObservedCluster()
    made.device_class("rdma")
    made.node("node", cpu="64")
    own = {
        name: {} if given is None else {"networkDevice": {"bool": given}} for name, given in offered.items()
    }
    devices = [
        {"name": name, "attributes": {"type": {"string": "nic"}, **attributes}}
        for name, attributes in own.items()
    ]
    made.slice("node", "node-nics", {"devices": devices, "driver": RDMA}, 1)
    return made


def devices(made: ObservedCluster, name: str) -> list[str]:
    """Return the devices of a claim, none while it waits."""
    claim = made.snapshot.claim("team", name)
    assert claim is not None
    found = made.snapshot.allocation(claim)
    return [result.device.name for result in found.results] if found is not None else []


async def test_a_claim_that_asks_for_a_network_device_gets_a_nic_that_has_one_to_give(client: Client) -> None:
    """The one that the node needs, and one of which nobody knows, serve claims for character devices."""
    made = nics(a=False, b=None, c=True)
    made.claim("rail", _one(), config=[network()])
    made.claim("files", _one())
    for name in ("rail", "files"):
        made.pod(name, name, gates=[GATE])
    made.cycle(client).once()
    assert devices(made, "rail") == ["c"]
    assert len(devices(made, "files")) == 1


async def test_a_claim_that_no_nic_can_give_its_interface_waits_and_says_why(client: Client) -> None:
    """The Event names the attribute that the NICs lack, in the reason of their nodes: there may be no room for what is nearest."""
    made = nics(a=False)
    made.claim("rail", _one(), config=[network()])
    made.pod("p", "rail", gates=[GATE])
    made.cycle(client).once()
    assert devices(made, "rail") == []
    texts = [text for name, reason, text in made.messages if (name, reason) == ("rail", "NotAllocated")]
    assert len(texts) == 1
    assert "networkDevice" in texts[0].split(". nearest: ")[0]


@pytest.mark.parametrize(("of", "others"), [("first", ["a"]), ("second", ["a"])])
async def test_only_the_requests_that_the_parameters_name_need_an_interface(
    client: Client, of: str, others: list[str]
) -> None:
    """The other request takes the NIC that the node needs."""
    made = nics(a=False, c=True)
    made.claim("rail", _one("first"), _one("second"), config=[network(of)])
    made.pod("p", "rail", gates=[GATE])
    made.cycle(client).once()
    claim = made.snapshot.claim("team", "rail")
    found = made.snapshot.allocation(claim) if claim is not None else None
    assert found is not None
    by_request = {result.request: result.device.name for result in found.results}
    assert by_request.pop(of) == "c"
    assert [*by_request.values()] == others


async def test_a_claim_for_a_vlan_gets_a_virtual_function(client: Client) -> None:
    """Its NIC's driver keeps to the VLAN; a NIC that is no virtual function has nobody above it."""
    made = nics(a=True, b=True)
    published = [
        {
            "name": name,
            "attributes": {"networkDevice": {"bool": True}, "virtualFunction": {"bool": name == "b"}},
        }
        for name in "ab"
    ]
    made.slice("node", "node-nics", {"devices": published, "driver": RDMA}, 1)
    made.claim("rail", _one(), config=[network(virtualFunction={"vlan": 100})])
    made.pod("p", "rail", gates=[GATE])
    made.cycle(client).once()
    assert devices(made, "rail") == ["b"]


async def test_parameters_of_a_class_count_for_its_requests(client: Client) -> None:
    """And a claim that waits follows a class that is changed."""
    made = nics(a=False)
    raw = made.device_class("rdma")
    made.see(CLASSES, raw | {"spec": {**raw["spec"], "config": [{"opaque": network()["opaque"]}]}})
    made.claim("rail", _one())
    made.pod("p", "rail", gates=[GATE])
    cycle = made.cycle(client)
    cycle.once()
    assert devices(made, "rail") == []
    made.device_class("rdma")
    cycle.once()
    assert devices(made, "rail") == ["a"]


def _one(name: str = "nic") -> Json:
    return {"name": name, "exactly": {"deviceClassName": "rdma"}}


def names_of(gates: Gates) -> list[str]:
    """Return the names of the pods whose gate can be removed now."""
    return [pod.name for pod in opened(gates)]


def shared() -> tuple[ObservedCluster, Json]:
    """Return two pods that wait behind their gates for one allocated claim for a network device."""
    made = nics(a=True)
    claim = made.claim("rail", _one(), config=[network()])
    entry = {"source": "FromClaim", "opaque": network()["opaque"]}
    made.allocate(claim, "node", "a")
    claim["status"]["allocation"]["devices"]["config"] = [entry]
    made.see(CLAIMS, claim)
    for name in "pq":
        made.pod(name, "rail", gates=[GATE])
    return made, claim


def test_of_pods_that_share_a_network_device_one_starts() -> None:
    """The next one when that is over: an interface is in the network of one pod."""
    made, _ = shared()
    gates = Gates(made.snapshot)
    (first,) = names_of(gates)
    second = "q" if first == "p" else "p"
    assert [(pod.name, name.name, other.name) for pod, name, other in gates.taken] == [
        (second, "rail", first)
    ]
    running = made.pod(first, "rail")
    assert names_of(gates) == []
    made.see(PODS, running | {"status": {"phase": "Succeeded"}})
    assert names_of(gates) == [second]
    assert gates.taken == []


def test_who_has_a_network_device_is_found_out_once_however_many_pods_name_its_claim() -> None:
    """Work grows with the pods, not with their square."""
    counts = []
    for count in (100, 400):
        made, _ = shared()
        for number in range(count):
            made.pod(f"a{number}", "rail", gates=[GATE])
        gates = Gates(made.snapshot)
        counts.append(steps(lambda: opened(gates)))  # noqa: B023 - called before the next turn
        assert len(gates.taken) == count + 1
    assert counts[1] < 5 * counts[0]


def test_a_pod_that_is_deleted_keeps_the_interface_until_it_is_gone() -> None:
    """Its containers may run; one that no node has never had it."""
    made, _ = shared()
    gates = Gates(made.snapshot)
    first = made.pod("p", "rail", spec={"nodeName": "node"})
    first["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    made.see(PODS, first)
    assert names_of(gates) == []
    first["spec"].pop("nodeName")
    made.see(PODS, first)
    assert names_of(gates) == ["q"]


def test_a_pod_that_waits_for_anothers_network_device_says_so(client: Client) -> None:
    """By an Event with claim, field and the other pod."""
    made, _ = shared()
    made.pod("p", "rail")
    cycle = made.cycle(client)
    cycle.once()
    cycle.once()
    texts = [text for name, reason, text in made.messages if (name, reason) == ("q", "NetworkDeviceTaken")]
    assert len(texts) >= 1
    assert "claim team/rail: spec.devices.config" in texts[0]
    assert "Pod p has it" in texts[0]


def test_pods_that_share_character_devices_all_start() -> None:
    """Without NetworkConfig nothing is in one pod only."""
    made = nics(a=True)
    made.allocate(made.claim("files", _one()), "node", "a")
    for name in "pq":
        made.pod(name, "files", gates=[GATE])
    assert sorted(names_of(Gates(made.snapshot))) == ["p", "q"]
