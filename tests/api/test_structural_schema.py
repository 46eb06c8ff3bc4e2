"""JSON schemas become structural schemas."""

from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field

from apportion.api.schema import structural


class Inner(BaseModel):
    """An inner thing."""

    size: int = 1


class Outer(BaseModel):
    inner: Inner = Field(description="Where it stands wins over what it is.")
    filled: Inner = Inner()
    maybe: Inner | None = None
    share: Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern="%$")] = "10%"
    fixed: Literal["only"] = "only"
    above: Annotated[int, Field(gt=3)] = 4
    keyed: Annotated[list[str], Field(json_schema_extra={"x-kubernetes-list-type": "set"})] = []
    table: dict[str, int] = {}


@pytest.fixture(scope="module")
def properties() -> dict[str, Any]:
    """Return what the fold makes of Outer's fields."""
    return dict(structural(Outer.model_json_schema())["properties"])


def test_a_reference_is_inlined_and_its_surroundings_win(properties: dict[str, Any]) -> None:
    """Structural schemas know no references."""
    assert properties["inner"] == {
        "type": "object",
        "description": "Where it stands wins over what it is.",
        "properties": {"size": {"type": "integer", "default": 1}},
    }


def test_an_object_with_defaults_of_its_own_defaults_to_empty(properties: dict[str, Any]) -> None:
    """The API server fills in the rest, so that the defaults stand in one place."""
    assert properties["filled"]["default"] == {}


def test_an_optional_field_is_simply_not_required(properties: dict[str, Any]) -> None:
    """Null is neither a type nor a default."""
    assert properties["maybe"]["type"] == "object"
    assert "default" not in properties["maybe"]


def test_a_number_or_text_is_marked_as_such_with_the_bounds_of_both(properties: dict[str, Any]) -> None:
    """IntOrString has no type, only the mark."""
    assert properties["share"] == {
        "x-kubernetes-int-or-string": True,
        "minimum": 1,
        "pattern": "%$",
        "default": "10%",
    }


def test_a_constant_is_an_enumeration_of_one(properties: dict[str, Any]) -> None:
    """`const` is not part of a structural schema."""
    assert properties["fixed"] == {"type": "string", "enum": ["only"], "default": "only"}


def test_an_exclusive_bound_is_a_bound_and_a_flag(properties: dict[str, Any]) -> None:
    """As in the JSON schema draft that Kubernetes uses."""
    assert properties["above"] == {"type": "integer", "minimum": 3, "exclusiveMinimum": True, "default": 4}


def test_marks_of_kubernetes_pass_through_and_empty_defaults_go(properties: dict[str, Any]) -> None:
    """An empty list or map says nothing that absence does not."""
    assert properties["keyed"] == {
        "type": "array",
        "items": {"type": "string"},
        "x-kubernetes-list-type": "set",
    }
    assert properties["table"] == {"type": "object", "additionalProperties": {"type": "integer"}}


def test_titles_and_closed_objects_leave_no_trace() -> None:
    """Pruning drops unknown fields anyway."""

    class Closed(BaseModel, extra="forbid"):
        name: str = Field(title="A Title", examples=["x"])

    assert structural(Closed.model_json_schema()) == {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    }


class Endless(BaseModel):
    next: Optional["Endless"] = None


class TwoKinds(BaseModel):
    value: Inner | list[int]


class Pair(BaseModel):
    value: tuple[int, str]


@pytest.mark.parametrize("model", [Endless, TwoKinds, Pair])
def test_what_has_no_structural_form_is_an_error(model: type[BaseModel]) -> None:
    """A cycle, a union of different things, a list with positions: found when the CRDs are made, not on a cluster."""
    with pytest.raises(TypeError):
        structural(model.model_json_schema())
