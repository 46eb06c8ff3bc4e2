"""Discovery: what the API server in memory says of its kinds, as clients ask for it before they list."""

from collections.abc import Collection
from typing import Any

from apportion.cluster.kinds import ResourceKind


def served(path: str, kinds: Collection[ResourceKind], unserved: Collection[ResourceKind]) -> dict[str, Any]:
    """Return the answer to a request for what is served below a path, {} where nothing is."""
    found = [kind for kind in kinds if kind not in unserved]
    if path == "/api":
        return {"versions": ["v1"]}
    if path == "/apis":
        groups = {kind.group: {"version": kind.version} for kind in found if kind.group}
        return {
            "groups": [
                {"name": name, "versions": [version], "preferredVersion": version}
                for name, version in groups.items()
            ]
        }
    resources = [
        {
            "name": kind.plural,
            "kind": kind.name,
            "singularName": kind.name.lower(),
            "namespaced": kind.namespaced,
            "verbs": ["get", "list", "watch", "patch"],
        }
        for kind in found
        if path == kind.path().removesuffix(f"/{kind.plural}")
    ]
    return {"resources": resources} if resources else {}
