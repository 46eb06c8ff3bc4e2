"""The rights that roles grant, and the rights that requests need."""

from collections.abc import Iterator

from testbed.api import Json
from testbed.audit import Request
from testbed.controlplane import ControlPlane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
Right = tuple[str, str, str]
"""API group, resource or resource/subresource, verb."""


def rights(rules: list[Json]) -> Iterator[Right]:
    """Yield what the rules of a role grant, one by one."""
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield group, resource, verb


def right(request: Request) -> Right:
    """Return the right that a request needs."""
    resource = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
    return request.group, resource, request.verb


async def granted(cluster: ControlPlane, account: str) -> set[Right]:
    """Return everything that the manifests grant to an account."""
    found = set(rights((await cluster.api.get(f"{RBAC}/clusterroles/{account}"))["rules"]))
    roles, _ = await cluster.api.items(f"{RBAC}/namespaces/apportion-system/roles")
    for role in roles:
        if role["metadata"]["name"] == account:
            found |= set(rights(role["rules"]))
    return found


def of(asked: list[Request], account: str) -> list[Request]:
    """Return the requests of an account."""
    return [each for each in asked if each.user == f"system:serviceaccount:apportion-system:{account}"]
