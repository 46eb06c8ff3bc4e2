"""Actions: the steps by which Partition objects become what is wanted.

In: a published partition, a node, a holder. Out: the Partition object to create, change or delete.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

from apportion.api.contract import AGENT_FINALIZER, STATIC_SUFFIX
from apportion.api.model import ObjectMeta
from apportion.api.partition import Holder, Origin, Partition, PartitionSpec
from apportion.cluster.publishedpartition import PublishedPartition

_LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class Create:
    """Make a Partition object."""

    partition: Partition


@dataclass(frozen=True, slots=True)
class SetHolder:
    """Change who holds a partition; None makes it idle."""

    partition: Partition
    holder: Holder | None


@dataclass(frozen=True, slots=True)
class Delete:
    """Have a partition removed from the hardware."""

    partition: Partition
    reason: str


Action = Create | SetHolder | Delete


def namespace(action: Action) -> str:
    """Return the namespace that an action is for, empty: of none."""
    holder = action.partition.spec.holder or (action.holder if isinstance(action, SetHolder) else None)
    return holder.namespace or "" if holder is not None else ""


def body_of(partition: Partition) -> dict[str, Any]:
    """Return a new Partition as it is sent: without a status and without what the server fills in."""
    metadata = {"name": partition.metadata.name, "finalizers": list(partition.metadata.finalizers)}
    return {key: value for key, value in partition.to_json().items() if key != "status"} | {
        "metadata": metadata
    }


def partition_for(part: PublishedPartition, node: str, origin: Origin, holder: Holder | None) -> Partition:
    """Build the Partition object for a published partition; of origin Layout it gets the static device's name.

    Raises BrokenInput for one that no Partition can stand for: a slice may say more than a Partition.
    """
    device = part.device.name + (STATIC_SUFFIX if origin == Origin.LAYOUT else "")
    return Partition(
        metadata=ObjectMeta(name=object_name(node, device), finalizers=(AGENT_FINALIZER,)),
        spec=PartitionSpec.from_json(
            {
                "node_name": node,
                "driver": part.device.driver,
                "pool": part.device.pool,
                "device": device,
                "parent": part.parent,
                "profile": part.profile,
                "placement": None
                if part.start is None or part.size is None
                else {"start": part.start, "size": part.size},
                "origin": origin,
                "holder": holder,
            }
        ),
    )


def object_name(node: str, device: str) -> str:
    """Return the name of a device's Partition object: the same for every attempt, so that none is made twice."""
    name = f"{node}-{device}"
    if len(name) <= _LONGEST_NAME:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{name[: _LONGEST_NAME - 11]}-{mark}"
