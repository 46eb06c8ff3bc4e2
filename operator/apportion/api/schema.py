"""Turn a pydantic JSON schema into a structural schema (apiextensions.k8s.io/v1 JSONSchemaProps).

In: what `model_json_schema()` returns. Out: a schema that the API server accepts: without references, without null, without
`additionalProperties: false` (the server prunes unknown fields). Raises TypeError for what has no structural form.
"""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

_KEPT = frozenset(
    {
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "pattern",
        "properties",
        "required",
        "type",
    },
)
_FIRST = ("type", "description")
_DROPPED = frozenset({"$defs", "discriminator", "examples", "title"})
_DEFINITIONS = "#/$defs/"
_NULL = {"type": "null"}


def structural(schema: Mapping[str, Any]) -> Schema:
    """Return the structural schema of a model's JSON schema."""
    definitions: Mapping[str, Schema] = schema.get("$defs", {})
    return _structural(schema, definitions, ())


def _structural(
    schema: Mapping[str, Any], definitions: Mapping[str, Schema], within: tuple[str, ...]
) -> Schema:
    resolved, within = _resolve(schema, definitions, within)
    found: Schema = {}
    for key, value in resolved.items():
        match key:
            case "properties":
                found[key] = {name: _structural(child, definitions, within) for name, child in value.items()}
            case "items":
                found[key] = _structural(value, definitions, within)
            case "additionalProperties" if isinstance(value, dict):
                found[key] = _structural(value, definitions, within)
            case "additionalProperties" if value is False:
                pass
            case "const":
                found["enum"] = [value]
            case "exclusiveMinimum" | "exclusiveMaximum":
                found[f"{key[9:].lower()}"] = value
                found[key] = True
            case "description":
                found[key] = " ".join(value.split())
            case _ if key in _KEPT or key.startswith("x-kubernetes-"):
                found[key] = value
            case _ if key in _DROPPED:
                pass
            case _:
                raise TypeError(f"{key}: {value!r} has no form in a structural schema")
    _settle_default(found)
    return {key: found[key] for key in (*_FIRST, *found) if key in found}


def _settle_default(schema: Schema) -> None:
    """Drop empty defaults; an object with defaults inside gets `{}`, into which the API server fills them."""
    properties: Mapping[str, Schema] = schema.get("properties", {})
    if any("default" in child for child in properties.values()) and "default" in schema:
        schema["default"] = {}
    elif schema.get("default") in (None, [], {}) or properties:
        schema.pop("default", None)


def _resolve(
    schema: Mapping[str, Any],
    definitions: Mapping[str, Schema],
    within: tuple[str, ...],
) -> tuple[Schema, tuple[str, ...]]:
    """Inline references and unions with null; keys beside a reference win over those of its definition."""
    resolved = dict(schema)
    while "$ref" in resolved or "anyOf" in resolved:
        if reference := resolved.pop("$ref", None):
            name = str(reference).removeprefix(_DEFINITIONS)
            if name in within:
                raise TypeError(f"{name} contains itself; a structural schema cannot")
            within = (*within, name)
            resolved = {**definitions[name], **resolved}
            continue
        members = [member for member in resolved.pop("anyOf") if member != _NULL]
        if resolved.get("default", ...) is None:
            del resolved["default"]
        if {member.get("type") for member in members} == {"integer", "string"}:
            bounds = {key: value for member in members for key, value in member.items() if key != "type"}
            resolved = {"x-kubernetes-int-or-string": True, **bounds, **resolved}
        elif len(members) == 1:
            resolved = {**members[0], **resolved}
        else:
            raise TypeError(f"a union of {members!r} has no form in a structural schema")
    return resolved, within
