"""The base class of the models, and what all kinds share: names, metadata, conditions.

In: decoded JSON. Out: a frozen value, or BrokenInput naming the field. Patterns and lengths of names are those of the
Kubernetes API (resource.k8s.io/v1).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from apportion.dra.quantity import Quantity
from apportion.errors import BrokenInput

_Written = TypeVar("_Written", int, str, int | str)
_UNION_TAGS = frozenset({"int", "str"})
"""Members of unions, which pydantic puts into the path of an error; messages name fields only."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"

DeviceName = Annotated[str, Field(min_length=1, max_length=63, pattern=rf"^{_LABEL}$")]
"""A DNS label."""
DriverName = Annotated[str, Field(min_length=1, max_length=63, pattern=rf"^{_SUBDOMAIN}$")]
"""A DNS subdomain."""
NodeName = Annotated[str, Field(min_length=1, max_length=253, pattern=rf"^{_SUBDOMAIN}$")]
"""A DNS subdomain."""
ClassName = NodeName
"""A DNS subdomain."""
PoolName = Annotated[str, Field(min_length=1, max_length=253, pattern=rf"^{_SUBDOMAIN}(/{_SUBDOMAIN})*$")]
"""DNS subdomains separated by slashes."""
ProfileName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
"""A MIG profile (1g.10gb, 1g.10gb+me) or an Ascend vNPU template (vir05_1c_16g)."""
AttributeName = Annotated[
    str,
    Field(max_length=96, pattern=rf"^{_SUBDOMAIN}/[A-Za-z_][A-Za-z0-9_]{{0,31}}$"),
]
"""A qualified attribute name: domain (at most 63 characters), slash, C identifier (at most 32)."""


def require_amount(value: _Written) -> _Written:
    """Return a quantity as it is written. Raises ValueError for what is none, and for one below zero."""
    try:
        negative = Quantity.parse(value).nano < 0
    except BrokenInput as error:
        raise ValueError(error.reason) from None
    if negative:
        raise ValueError(f"{value!r} is negative")
    return value


def _add_rules(schema: dict[str, Any], model: type[BaseModel]) -> None:
    if issubclass(model, Model) and model.rules:
        schema["x-kubernetes-validations"] = [dict(rule) for rule in model.rules]


class Model(BaseModel):
    """A frozen value whose JSON has camelCase names.

    Unknown fields are dropped, so that an older program can read the objects of a newer one.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="ignore",
        frozen=True,
        json_schema_extra=_add_rules,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    rules: ClassVar[tuple[Mapping[str, str], ...]] = ()
    """CEL rules for what a schema cannot express; `x-kubernetes-validations` of the CRD."""

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Read an object of the API server or a file; raises BrokenInput naming the first broken field."""
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise _broken(error) from None

    def to_json(self) -> dict[str, Any]:
        """Return the object as the API server takes it: camelCase names, absent values left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def listed(
    kind: Literal["atomic", "set", "map"], *, most: int, least: int | None = None, key: str = ""
) -> Any:
    """Return the bounds of a list field, and how server-side apply merges it: whole, as a set, or as a map by `key`."""
    extra: dict[str, Any] = {"x-kubernetes-list-type": kind}
    if key:
        extra["x-kubernetes-list-map-keys"] = [key]
    return Field(min_length=least, max_length=most, json_schema_extra=extra)


def _broken(error: ValidationError) -> BrokenInput:
    problems = error.errors(include_url=False, include_context=False)
    unknown = problems[0]["type"] == "extra_forbidden"
    reason = "is not known" if unknown else str(problems[0]["msg"]).removeprefix("Value error, ")
    if len(problems) > 1:
        reason += f" (and {len(problems) - 1} more)"
    return BrokenInput(reason, field=_path(problems[0]["loc"]))


def _path(loc: tuple[int | str, ...]) -> str:
    path = ""
    for step in loc:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step not in _UNION_TAGS:
            path += f".{step}" if path else step
    return path


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


MOST_MESSAGE = 4096
"""Characters of a condition's message. The API server refuses a status with a longer one."""


class Condition(Model):
    """One aspect of the object's state (meta/v1 Condition)."""

    type: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    """Name of the aspect in CamelCase."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    """Why, one CamelCase word for programs."""
    message: Annotated[str, Field(max_length=MOST_MESSAGE)] = ""
    """Why, as a message for users; names the object, the field and the reason."""
    last_transition_time: datetime
    """When status last changed."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The metadata.generation that this condition describes."""


Conditions = Annotated[tuple[Condition, ...], listed("map", key="type", most=16)]
