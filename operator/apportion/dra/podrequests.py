"""pod_requests(): the resources that kube-scheduler counts of a pod (k8s.io/component-helpers `resource.PodRequests`, 1.37).

In: spec and status of a pod. Out: amounts by resource. A pod that is resized in place (KEP-1287) counts with the largest of what it
requests, what kubelet has admitted and what its containers have; where kubelet says that the node can never give it what it requests,
with what was admitted and what they have.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from apportion.dra import reading
from apportion.dra.node import resources
from apportion.dra.reading import Json

_Amounts: TypeAlias = dict[str, int]


def pod_requests(spec: Json, status: Json) -> _Amounts:
    """Return the sum of containers, at least the maximum of init containers, plus overhead. Raises BrokenInput naming the field."""
    infeasible = _is_infeasible(status)
    admitted, given = _reported(status, "status")
    counted = [] if infeasible else [_sum(spec, _requested)]
    if admitted is not None and given is not None:
        counted += [admitted, given]
    elif infeasible or _differs(spec, status):
        found = {
            _name(row, path): _reported(row, path)
            for key in ("initContainerStatuses", "containerStatuses")
            for path, row in reading.rows(status, key, at="status")
        }

        def reported(container: Json, at: str, *, given: bool) -> _Amounts:
            admitted, actual = found.get(_name(container, at), (None, None))
            known = actual if given and actual is not None else admitted
            if known is not None:
                return known
            return {} if infeasible else _requested(container, at)

        counted += [
            _sum(spec, lambda row, at: reported(row, at, given=False)),
            _sum(spec, lambda row, at: reported(row, at, given=True)),
        ]
    total = _largest(counted)
    # Pod-level resources (KEP-2837) replace those of the containers, for the resources that they name.
    own = _requested(spec, "spec")
    if own and "resources" in status:
        own = _largest([each for each in ({} if infeasible else own, given, admitted) if each is not None])
    total.update({name: amount for name, amount in own.items() if _is_of_pods(name)})
    _add(total, resources(reading.table(spec, "overhead", at="spec"), "spec.overhead"))
    return total


def _is_infeasible(status: Json) -> bool:
    """Say whether the node can never give the pod what it requests (condition PodResizePending, reason Infeasible)."""
    for _, row in reading.rows(status, "conditions", at="status"):
        if row.get("type") == "PodResizePending":
            return row.get("reason") == "Infeasible"
    return False


def _differs(spec: Json, status: Json) -> bool:
    """Say whether kubelet reports something else of a container than it requests. Three sums cost more than this look, and most pods need one."""
    requested = {
        _name(row, path): reading.table(row, "resources", at=path).get("requests")
        for key in ("containers", "initContainers")
        for path, row in reading.rows(spec, key, at="spec")
    }
    for key in ("containerStatuses", "initContainerStatuses"):
        for path, row in reading.rows(status, key, at="status"):
            same = None, requested.get(_name(row, path))
            given = reading.table(row, "resources", at=path).get("requests")
            if row.get("allocatedResources") not in same or given not in same:
                return True
    return False


def _name(container: Json, at: str) -> str:
    return reading.text(container, "name", at=at, default="")


def _is_of_pods(name: str) -> bool:
    """Say whether a pod may request a resource as a whole (`SupportedPodLevelResources`)."""
    return name in {"cpu", "memory"} or name.startswith("hugepages-")


def _sum(spec: Json, of: Callable[[Json, str], _Amounts]) -> _Amounts:
    """Sum what `of` says of each container, by spec and path.

    Sidecars (init containers with restartPolicy Always) run together with everything that starts after them.
    """
    total: _Amounts = {}
    for path, row in reading.rows(spec, "containers", at="spec"):
        _add(total, of(row, path))
    sidecars: _Amounts = {}
    peak: _Amounts = {}
    for path, row in reading.rows(spec, "initContainers", at="spec"):
        own = of(row, path)
        if row.get("restartPolicy") == "Always":
            _add(sidecars, own)
            own = dict.fromkeys(own, 0)
        # Of what it does not name there is no more than before; to go through all of it for each of thousands takes seconds.
        for name, amount in own.items():
            peak[name] = max(peak.get(name, 0), amount + sidecars.get(name, 0))
    _add(total, sidecars)
    return _largest([total, peak])


def _requested(container: Json, at: str) -> _Amounts:
    inside = reading.table(container, "resources", at=at)
    return resources(reading.table(inside, "requests", at=f"{at}.resources"), f"{at}.resources.requests")


def _reported(status: Json, at: str) -> tuple[_Amounts | None, _Amounts | None]:
    """Return what kubelet has admitted for a container, or the pod, and what it has; None: not reported."""
    admitted = status.get("allocatedResources")
    inside = reading.table(status, "resources", at=at)
    return (
        resources(reading.table(status, "allocatedResources", at=at), f"{at}.allocatedResources")
        if admitted is not None
        else None,
        _requested(status, at) if inside.get("requests") is not None else None,
    )


def _add(total: _Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _largest(amounts: Iterable[_Amounts]) -> _Amounts:
    """Return the largest amount of each resource."""
    found: _Amounts = {}
    for each in amounts:
        for name, amount in each.items():
            found[name] = max(found.get(name, 0), amount)
    return found
