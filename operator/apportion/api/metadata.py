"""Parts of every object: its metadata, and the conditions in its status."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from apportion.api.model import Model, listed


class ObjectMeta(Model):
    """The fields of an object's metadata that apportion reads."""

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
    """The object is deleted only when this list is empty."""
    creation_timestamp: datetime | None = None
    """When the API server made the object."""
    deletion_timestamp: datetime | None = None
    """When its deletion was requested; absent otherwise."""


class Condition(Model):
    """One aspect of the object's state (meta/v1 Condition)."""

    type: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    """Name of the aspect in CamelCase."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    """Why, one CamelCase word for programs."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """Why, as a message for users; names the object, the field and the reason."""
    last_transition_time: datetime
    """When status last changed."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The metadata.generation that this condition describes."""


Conditions = Annotated[tuple[Condition, ...], listed("map", key="type", most=16)]
