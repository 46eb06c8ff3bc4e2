"""Walk through the schemas of CRDs."""

from collections.abc import Iterator, Mapping
from typing import Any


def fields(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return every field of a schema with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from fields(child, f"{path}.{name}")
    for child in schema.get("items", {}).get("properties", {}).items():
        yield from fields(child[1], f"{path}[].{child[0]}")
