"""Claims that ask for a NIC's network device: which NICs will do, and how many pods can have one."""

from typing import Any

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLASSES
from tests.observedcluster import Json, ObservedCluster

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
    """The Event names the attribute that the NICs lack."""
    made = nics(a=False)
    made.claim("rail", _one(), config=[network()])
    made.pod("p", "rail", gates=[GATE])
    made.cycle(client).once()
    assert devices(made, "rail") == []
    texts = [text for name, reason, text in made.messages if (name, reason) == ("rail", "NotAllocated")]
    assert len(texts) == 1
    assert "networkDevice" in texts[0]


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
