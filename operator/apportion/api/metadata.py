"""The parts that every Kubernetes object has: its metadata, and the conditions in its status."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from apportion.api.model import Model


class OwnerReference(Model):
    """An object that this one goes away with."""

    api_version: str
    """API version of the owner."""
    kind: str
    """Kind of the owner."""
    name: str
    """Name of the owner."""
    uid: str
    """UID of the owner."""
    controller: bool | None = None
    """Whether the owner is the one that manages this object."""
    block_owner_deletion: bool | None = None
    """Whether the owner waits for this object when it is deleted in the foreground."""


class ObjectMeta(Model):
    """What we read of an object's metadata."""

    name: str
    """Name of the object."""
    uid: str = ""
    """UID, empty before the API server has seen the object."""
    resource_version: str = ""
    """Version for optimistic locking, empty before the API server has seen the object."""
    generation: int = 0
    """Counts changes of the spec."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations."""
    finalizers: tuple[str, ...] = ()
    """Who still has to clean up before the object may go."""
    owner_references: tuple[OwnerReference, ...] = ()
    """Objects that this one goes away with."""
    creation_timestamp: datetime | None = None
    """When the API server made the object."""
    deletion_timestamp: datetime | None = None
    """When somebody asked to delete it; absent as long as nobody has."""


class Condition(Model):
    """One aspect of the object's state (meta/v1 Condition)."""

    type: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    """Name of the aspect in CamelCase."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    """Why, one CamelCase word for programs."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """Why, for people; names the object, the field and the reason."""
    last_transition_time: datetime
    """When status last changed."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The metadata.generation that this condition speaks of."""


Conditions = Annotated[
    tuple[Condition, ...],
    Field(
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]
