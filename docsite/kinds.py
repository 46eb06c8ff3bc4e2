"""A page for each kind of object that people write. In: the pydantic models. Out: pages with a table of all fields."""

from collections.abc import Iterator, Mapping
from typing import Any

from apportion.api import GROUP, VERSION
from apportion.api.crd import DEFINITIONS, render
from docsite.page import Page, cell


def pages() -> Iterator[Page]:
    """Yield the pages of all kinds."""
    for definition in DEFINITIONS:
        spec = render(definition)["spec"]
        names = spec["names"]
        schema = spec["versions"][0]["schema"]["openAPIV3Schema"]
        kind = names["kind"]
        named = f"`apiVersion: {GROUP}/{VERSION}`, `kind: {kind}`; `kubectl get {names['plural']}`"
        made = "Made from the operator's models, as the CustomResourceDefinition is."
        text = [f"# {kind}", schema["description"], f"{named}, in short `{names['shortNames'][0]}`. {made}"]
        for part in ("spec", "status"):
            rows = [
                f"| `{path}` | {_type(field)} | {_default(field, required=required)} | {cell(field.get('description', ''))} |"
                for path, field, required in _fields(schema["properties"].get(part, {}), "")
            ]
            if rows:
                text.append(
                    "\n".join(
                        (f"## {part}", "", "| field | type | default | meaning |", "|---|---|---|---|", *rows)
                    )
                )
        yield Page(f"reference/{kind.lower()}.md", kind, "\n\n".join(text) + "\n")


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Yield path, schema and whether it must be there of all fields below, parents first."""
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, field, name in schema.get("required", ())
        yield from _fields(field, here)
        yield from _fields(field.get("items", {}), f"{here}[]")
        if isinstance(further := field.get("additionalProperties"), Mapping):
            yield from _fields(further, f"{here}.*")


def _type(field: Mapping[str, Any]) -> str:
    if values := field.get("enum"):
        return ", ".join(f"`{value}`" for value in values)
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = str(field.get("type", "any"))
    if kind == "array":
        return f"list of {_type(field.get('items', {}))}"
    if kind == "object" and isinstance(further := field.get("additionalProperties"), Mapping):
        return f"map of {_type(further)}"
    least, most = field.get("minimum"), field.get("maximum")
    bounds = [f"at least {least}"] * (least is not None) + [f"at most {most}"] * (most is not None)
    return ", ".join((kind, *bounds))


def _default(field: Mapping[str, Any], *, required: bool) -> str:
    if required:
        return "must be there"
    default = field.get("default")
    return "" if default in (None, {}, []) else f"`{default}`"
