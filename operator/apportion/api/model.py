"""The base class of the models. In: decoded JSON. Out: a frozen value, or BrokenInput naming the field."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from apportion.errors import BrokenInput

_UNION_TAGS = frozenset({"int", "str"})
"""Members of unions, which pydantic puts into the path of an error; messages name fields only."""


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
    reason = str(problems[0]["msg"]).removeprefix("Value error, ")
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
