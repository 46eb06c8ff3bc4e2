"""Requests to the API server by client, from its audit log.

In: a control plane. Out: counts by client and by what was asked; watches are left out, because they last.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping

from testbed.audit import Request
from testbed.controlplane import ControlPlane

Counts = dict[str, Counter[str]]
"""By client, then by verb and resource, as in `patch resourceclaims/status`."""
_CLIENTS: Mapping[str, str] = {
    "system:serviceaccount:apportion-system:apportion-operator": "operator",
    "system:kube-scheduler": "kube-scheduler",
    "system:kube-controller-manager": "kube-controller-manager",
    "system:apiserver": "kube-apiserver",
    "agents": "agents",
    "admin": "bench",
}
_CONTROLLERS = "system:serviceaccount:kube-system:"
_LASTING = frozenset({"watch"})


def counted(control_plane: ControlPlane) -> Counts:
    """Return all requests so far."""
    found: Counts = defaultdict(Counter)
    for each in control_plane.audited():
        if each.verb not in _LASTING:
            found[_client(each)][_text(each)] += 1
    return found


def since(before: Counts, after: Counts) -> Counts:
    """Return the requests between two countings, without clients that made none."""
    found = {client: counts - before.get(client, Counter()) for client, counts in after.items()}
    return {client: counts for client, counts in sorted(found.items()) if counts}


def _client(request: Request) -> str:
    if request.user.startswith(_CONTROLLERS):
        return "kube-controller-manager"
    return _CLIENTS.get(request.user, request.user)


def _text(request: Request) -> str:
    target = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
    return f"{request.verb} {target}"
