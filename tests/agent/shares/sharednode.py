"""A node whose GPUs an AllocationPolicy shares, and what is asked of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from testbed.api import Json
from testbed.eventually import eventually
from tests.agent.simulatednode import SimulatedNode

POLICIES = "/apis/apportion.dev/v1alpha1/allocationpolicies"
MOST = 4
GIB = 2**30


def policy(name: str, *sharing: Json) -> Json:
    """Return an AllocationPolicy that covers no class and shares GPUs."""
    return {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "AllocationPolicy",
        "metadata": {"name": name},
        "spec": {"deviceClasses": {"names": [f"none-{name}"]}, "sharing": list(sharing)},
    }


def entry(node: SimulatedNode, **more: Any) -> Json:
    """Return an entry that selects one node."""
    return {"nodeSelector": {"matchLabels": {"example.com/node": node.name}}, "mostClaims": MOST, **more}


@asynccontextmanager
async def sharing(node: SimulatedNode, **more: Any) -> AsyncIterator[str]:
    """Label the node and make a policy that shares its GPUs, until the block ends; gives the policy's path."""
    await label(node)
    path = f"{POLICIES}/{node.name}"
    await node.api.create(POLICIES, policy(node.name, entry(node, **more)), fieldValidation="Strict")
    try:
        yield path
    finally:
        if await node.api.find(path) is not None:
            await node.api.delete(path)


async def label(node: SimulatedNode) -> None:
    """Give the node the label that `entry` selects."""
    path = f"/api/v1/nodes/{node.name}"
    await node.api.patch(path, {"metadata": {"labels": {"example.com/node": node.name}}})


async def shared(node: SimulatedNode, card: str = "gpu-0", *, yes: bool = True) -> Json:
    """Wait until a card is published for several claims, or for one; returns the device."""
    found = await eventually(
        node.devices,
        lambda devices: card in devices and ("allowMultipleAllocations" in devices[card]) == yes,
    )
    device: Json = found[card]
    return device


async def offered(node: SimulatedNode, shares: int) -> None:
    """Wait until gpu-0 is published for so many claims."""
    await eventually(
        node.devices,
        lambda found: found["gpu-0"].get("capacity", {}).get("shares", {}).get("value") == str(shares),
    )


def keys(device: Json) -> list[tuple[str, str]]:
    """Return keys and effects of a device's taints, without the domain."""
    return [(taint["key"].split("/")[1], taint["effect"]) for taint in device["taints"]]


def environment(node: SimulatedNode, claim: Json) -> dict[str, str]:
    """Return what a container of the claim finds in its environment, by the CDI file."""
    (found,) = [file for name, file in node.cdi().items() if claim["metadata"]["uid"] in name]
    rows = [found["containerEdits"], *(device["containerEdits"] for device in found["devices"])]
    return dict(text.split("=", 1) for row in rows for text in row.get("env", ()))
