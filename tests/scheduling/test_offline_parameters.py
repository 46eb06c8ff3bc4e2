"""`apportion allocate` treats parameters for our drivers as the operator does: refused, or asked of devices."""

import json
from typing import Any

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from testbed.api import Json
from tests.allocator.test_allocate_command import run
from tests.observedcluster import ObservedCluster, request

NIC = "rdma.apportion.dev"
NETWORK = {"apiVersion": "config.apportion.dev/v1alpha1", "kind": "NetworkConfig"}
REFUSED = {
    "apiVersion": "resource.nvidia.com/v1beta1",
    "kind": "GpuConfig",
    "sharing": {"strategy": "Exclusive"},
}


def entry(parameters: Json, driver: str) -> Json:
    """Return a `config` entry."""
    return {"opaque": {"driver": driver, "parameters": parameters}}


def world(*config: Json, class_config: tuple[Json, ...] = (), driver: str = NIC) -> dict[str, Any]:
    """Return a world with a NIC that the node needs, one that it does not, and a virtual function, and a claim for a device."""
    flags = {"kept": (False, False), "free": (True, False), "function": (True, True)}
    devices = [
        {
            "name": name,
            "attributes": {"networkDevice": {"bool": network}, "virtualFunction": {"bool": virtual}},
        }
        for name, (network, virtual) in flags.items()
    ]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    return {
        "classes": [{"metadata": {"name": "gpu"}, "spec": {"config": [*class_config]}}],
        "slices": [
            {
                "metadata": {"name": "s"},
                "spec": {"driver": driver, "nodeName": "n1", "pool": pool, "devices": devices},
            }
        ],
        "claims": [
            {
                "metadata": {"name": "c", "namespace": "team", "uid": "c"},
                "spec": {"devices": {"requests": [request("gpu")], "config": [*config]}},
            }
        ],
    }


def device(given: dict[str, Any], *words: str) -> str:
    """Return the device that the claim gets."""
    status, out, err = run("-f", "-", "-o", "json", *words, given=json.dumps(given))
    assert (status, err) == (0, "")
    (found,) = json.loads(out)["results"]
    name: str = found["devices"]["results"][0]["device"]
    return name


def test_a_claim_for_a_network_device_gets_a_nic_that_the_node_can_spare() -> None:
    """By its own parameters or its class's; without any the first one does, for its character devices."""
    virtual = NETWORK | {"virtualFunction": {"vlan": 3}}
    assert device(world()) == "kept"
    assert device(world(entry(NETWORK, NIC))) == "free"
    assert device(world(class_config=(entry(NETWORK, NIC),))) == "free"
    assert device(world(entry(virtual, NIC))) == "function"
    assert device(world(entry(NETWORK, NIC), class_config=(entry(virtual, NIC),))) == "free"


def test_the_drivers_of_agents_under_other_names_are_given() -> None:
    """As to the operator; what is for other drivers is theirs."""
    other = "nic.example.com"
    given = world(entry(NETWORK, other), driver=other)
    assert device(given) == "kept"
    assert device(given, "--drivers", other) == "free"


@pytest.mark.parametrize("output", ["text", "json"])
async def test_a_claim_that_the_operator_would_refuse_is_bad_input_with_the_words_of_its_event(
    client: Client, output: str
) -> None:
    """Exit status 2, and nothing on standard output."""
    config = [entry(REFUSED, "gpu.apportion.dev")]
    made = ObservedCluster()
    made.device_class("gpu")
    made.claim("c", config=config)
    made.pod("p", "c", gates=[GATE])
    made.cycle(client).once()
    ((*_, event), *_) = made.messages
    status, out, err = run("-f", "-", "-o", output, given=json.dumps(world(*config)))
    assert (status, out, err) == (2, "", f"error: {event}\n")
    assert "spec.devices.config[0].opaque.parameters.sharing.strategy: " in event


@pytest.mark.parametrize("output", ["text", "json"])
def test_parameters_that_suit_no_device_of_a_claim_are_bad_input(output: str) -> None:
    """As for the operator, which knows it once devices are chosen: others are chosen where there are some."""
    driver = "gpu.apportion.dev"
    kind = {"apiVersion": "config.apportion.dev/v1alpha1", "kind": "GpuConfig"}
    given = world(entry(kind | {"sharing": {"strategy": "MPS"}}, driver), driver=driver)
    devices = given["slices"][0]["spec"]["devices"]
    for each in devices:
        each["attributes"] = {"type": {"string": "mig"}}
    status, out, err = run("-f", "-", "-o", output, given=json.dumps(given))
    assert (status, out) == (2, "")
    assert err.startswith(
        "error: claim team/c: spec.devices.config[0].opaque.parameters.kind: GpuConfig is for"
    )
    wanted = given["claims"][0]["spec"]["devices"]["requests"]
    wanted.append(request("gpu", name="more"))
    status, out, second = run("-f", "-", "-o", output, given=json.dumps(given))
    assert (status, out, second) == (2, "", err)
    del wanted[1]
    devices[1]["attributes"] = {"type": {"string": "gpu"}}
    assert device(given) == "free"


def test_in_a_line_of_many_the_refusal_is_that_lines_answer() -> None:
    """The others are answered."""
    lines = [world(entry(REFUSED, "gpu.apportion.dev")), world()]
    status, out, _ = run("-f", "-", "--jsonl", given="\n".join(map(json.dumps, lines)))
    refused, answered = map(json.loads, out.splitlines())
    assert status == 0
    assert refused["error"]["kind"] == "fatal"
    assert refused["error"]["message"].startswith(
        "claim team/c: spec.devices.config[0].opaque.parameters.sharing"
    )
    assert answered["kind"] == "results"
