"""The ResourceSlices that our agent would publish for a simulated node, without running the agent.

In: the content of a simulation file, a Node's name and UID, how it shares its GPUs. Out: slices as JSON, made by the agent's own
code: the inventory of a node on which nothing is cut (`compose`), its pools, and the writes of a first round.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from apportion.agent.devices.simulated.cards import make
from apportion.agent.devices.simulated.simulation import Simulation
from apportion.agent.devices.values import Card, CardKind
from apportion.agent.slices.changes import Owner, slice_changes
from apportion.agent.slices.compose import compose
from apportion.agent.slices.pool import pools
from apportion.agent.slices.shares import PublishedSharing
from apportion.api.contract import GUARD, NETWORK_DEVICE
from testbed.api import Json

DRIVERS: Mapping[str, str] = {
    CardKind.GPU: "gpu.apportion.dev",
    CardKind.NPU: "npu.apportion.dev",
    CardKind.NIC: "rdma.apportion.dev",
}
"""The drivers' names by default (`apportion agent --driver-gpu` ...)."""


def published_slices(
    simulation: Mapping[str, Any],
    node: str,
    uid: str,
    *,
    guard: bool = True,
    sharing: PublishedSharing | None = None,
) -> tuple[Json, ...]:
    """Return the slices of all pools of a node.

    `guard` False leaves out the taint that excludes kube-scheduler's allocator; `sharing`: its GPUs serve several claims each. Raises BrokenInput for an unknown card model.
    """
    cards = tuple(_described(card) for card, *_ in make(Simulation.model_validate(simulation), node))
    inventory = compose(cards, (), {}, (), {}, sharing=sharing)
    owner = Owner(node, uid)
    found = tuple(
        each for pool in pools(inventory, DRIVERS) for each in slice_changes(pool, (), owner).creates
    )
    return found if guard else tuple(_without_guard(each) for each in found)


def _described(card: Card) -> Card:
    """Return the card with what the agent finds out at the node: a simulated NIC has no network interface."""
    more = {NETWORK_DEVICE: False} if card.kind == CardKind.NIC else {}
    return replace(card, attributes={**card.attributes, **more})


def _without_guard(item: Json) -> Json:
    """Return a slice whose devices anybody may allocate."""
    spec = item["spec"]
    if "devices" not in spec:
        return item
    return item | {"spec": spec | {"devices": [_untainted(row) for row in spec["devices"]]}}


def _untainted(device: Json) -> Json:
    taints = [taint for taint in device.get("taints", ()) if taint["key"] != GUARD]
    bare = {key: value for key, value in device.items() if key != "taints"}
    return bare | {"taints": taints} if taints else bare
