"""The group ladder of an AllocationPolicy: which nodes are close to each other, for pods of one group."""

from typing import Annotated

from pydantic import Field

from apportion.api.model import Model


class GroupLadderRung(Model):
    """One level of closeness of nodes."""

    node_label: Annotated[
        str,
        Field(
            max_length=317,
            pattern=r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$",
        ),
    ]
    """Key of a node label; nodes with the same value are close at this level, nodes without it to none. Example:
    nvidia.com/gpu.clique"""
    required: bool = False
    """True: all pods of a group get nodes with one value of this label, or none gets devices. False: as few values as it
    goes."""
