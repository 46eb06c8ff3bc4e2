"""What a workload would ask for by claims instead of extended resources.

In: a workload, the DeviceClasses behind extended resources. Out: for each container and resource the claim; and the objects to apply: ResourceClaimTemplates, and
the workload with claims in place of resources. Names of the device plugins of NVIDIA (also of MIG devices and of shared GPUs) and
Huawei (also of vNPUs) are known; others need a class with `extendedResourceName`.
"""

import copy
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from apportion.cli.migrateworkloads import Workload
from apportion.dra import reading
from apportion.dra.quantity import Quantity
from apportion.dra.reading import Json
from apportion.errors import BrokenInput

_GPU, _NPU = 'device.attributes["gpu.apportion.dev"]', 'device.attributes["npu.apportion.dev"]'
_VENDORS = ("nvidia.com/", "huawei.com/", "amd.com/", "intel.com/", "gpu.intel.com/", "aws.amazon.com/")
"""Resources of these are devices: where we do not know one, it is said."""
_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")
"""Metadata that the server writes."""
_VNPU = re.compile(r"(Ascend\d+[A-Z]*)-(\d+)c(?:\.(\d+)cpu)?(?:\.(\d+)g)?(\.ndvpp|\.dvpp)?")
"""Huawei's names of vNPUs: cores, AI CPUs, memory, media engines."""
_MIG = re.compile(r"mig-(\d+g\.\d+gb(?:-[a-z]+)?)(?:\.([a-z.]+))?")
"""NVIDIA's names of MIG devices: the profile's, with a point for the plus before its attributes (1g.10gb+me.all; 1g.24gb-me)."""
_LONGEST = 63
"""Characters of the name of a claim in a pod."""
_MOST = 2**63 - 1
"""Devices that a request may ask for: the API has 64 bits for them."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Devices of one kind that a container asks for."""

    container: str
    resource: str
    count: int
    claim: str
    """Name of the claim in the pod."""
    device_class: str = ""
    """Empty: nobody knows what to ask for."""
    selectors: tuple[str, ...] = ()
    note: str = ""
    """What else is needed, or why nothing can be asked for."""
    borrows: bool = False
    """Whether the claim is that of another container, which starts when this one has ended."""

    def request(self) -> Json:
        """Return the request of a ResourceClaim."""
        exactly: dict[str, Any] = {"deviceClassName": self.device_class}
        if self.count > 1:
            exactly["count"] = self.count
        if self.selectors:
            exactly["selectors"] = [{"cel": {"expression": each}} for each in self.selectors]
        return {"name": "devices", "exactly": exactly}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a workload asks for, and would ask for."""

    workload: Workload
    asks: tuple[Ask, ...]
    blocked: tuple[str, ...] = field(default=())
    """Why it cannot be moved as a whole."""
    alike: bool = False
    """Whether another workload of its name would have templates of the same names for something else."""

    def template_name(self, ask: Ask) -> str:
        """Return the name of the ResourceClaimTemplate of a claim; some asks have the same."""
        same = next(each for each in self.asks if each.request() == ask.request())
        own = f"-{ask.count}-{ask.device_class}" if self.alike else ""
        if own and ask.selectors:
            own += f"-{hashlib.sha256(' '.join(ask.selectors).encode()).hexdigest()[:6]}"
        return f"{self.workload.name}-{same.claim}"[: 253 - len(own)] + own

    @property
    def claims(self) -> tuple[Ask, ...]:
        """The asks that have a claim of their own."""
        return tuple(ask for ask in self.asks if ask.device_class and not ask.borrows)

    def templates(self) -> Iterator[Json]:
        """Yield the ResourceClaimTemplates."""
        for ask in {self.template_name(each): each for each in self.claims}.values():
            metadata = {"name": self.template_name(ask), "namespace": self.workload.namespace}
            yield {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": metadata,
                "spec": {"spec": {"devices": {"requests": [ask.request()]}}},
            }

    def patched_spec(self) -> dict[str, Any]:
        """Return the pod's spec with claims in place of resources."""
        spec: dict[str, Any] = copy.deepcopy(dict(self.workload.pod["spec"]))
        spec.pop("nodeName", None)  # where a bare pod runs now; made with a node it would have no gate
        moved = [ask for ask in self.asks if ask.device_class]
        for ask in self.claims:
            entry = {"name": ask.claim, "resourceClaimTemplateName": self.template_name(ask)}
            spec.setdefault("resourceClaims", []).append(entry)
        for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
            for ask in (each for each in moved if each.container == container["name"]):
                asked = container["resources"]
                asked.setdefault("claims", []).append({"name": ask.claim})
                for part in ("requests", "limits"):
                    if asked.get(part, {}).pop(ask.resource, None) is not None and not asked[part]:
                        del asked[part]
        return spec


def plan(workload: Workload, classes: Mapping[str, str]) -> Plan | None:
    """Return what a workload would ask for; None where it asks for no devices of a plugin.

    `classes`: the DeviceClass behind each extended resource. Raises BrokenInput.
    """
    try:
        asks = tuple(_asks(workload, classes))
    except BrokenInput as error:
        raise BrokenInput(f"{workload.key}: {error.reason}", field=error.field) from None
    if not asks:
        return None
    blocked = [
        f"container {each.container}: {each.resource}: {each.note}" for each in asks if not each.device_class
    ]
    if workload.path and workload.pod["spec"].get("nodeName"):
        blocked.append("spec.nodeName: nobody allocates for pods that are made with a node; use nodeSelector")
    return Plan(workload, asks, tuple(blocked))


def with_own_templates(plans: Sequence[Plan]) -> list[Plan]:
    """Return the plans such that no two templates of one name differ: jobs of a JobSet, or workloads of several kinds, may be called alike."""
    wanted: dict[tuple[str, str], list[Json]] = {}
    for each in plans:
        for ask in each.claims:
            wanted.setdefault((each.workload.namespace, each.template_name(ask)), []).append(ask.request())
    clashing = {name for name, asked in wanted.items() if any(one != asked[0] for one in asked)}
    return [
        replace(
            each,
            alike=any((each.workload.namespace, each.template_name(ask)) in clashing for ask in each.claims),
        )
        for each in plans
    ]


def to_apply(plans: Iterable[Plan]) -> Iterator[Json]:
    """Yield templates and workloads with claims in place of resources; of several plans of one object it has all.

    An object of which a part cannot be moved is left out.
    """
    by_object: dict[int, list[Plan]] = {}
    for each in plans:
        by_object.setdefault(id(each.workload.source), []).append(each)
    for together in by_object.values():
        if any(each.blocked for each in together):
            continue
        found = copy.deepcopy(dict(together[0].workload.source))
        found.pop("status", None)
        found["metadata"] = {key: value for key, value in found["metadata"].items() if key not in _SERVER}
        for each in together:
            yield from each.templates()
            inside: Any = found
            for step in each.workload.path:
                inside = inside[step]
            inside["spec"] = each.patched_spec()
        yield found


def _asks(workload: Workload, classes: Mapping[str, str]) -> Iterator[Ask]:
    spec = reading.table(workload.pod, "spec")
    own: list[Ask] = []
    taken = {reading.text(row, "name", at=at) for at, row in reading.rows(spec, "resourceClaims", at="spec")}
    for at, container in reading.rows(spec, "containers", at="spec"):
        own += _of(container, at, classes, taken)
    for at, container in reading.rows(spec, "initContainers", at="spec"):
        ends = reading.text(container, "restartPolicy", at=at, default="") != "Always"
        for ask in _of(container, at, classes, taken):
            # One that ends before the others start takes devices of theirs, as admission has it (ADR 29).
            lender = next(
                (each for each in own if each.resource == ask.resource and each.count >= ask.count), None
            )
            if ends and lender is not None:
                yield replace(ask, claim=lender.claim, borrows=True)
            else:
                yield ask
    yield from own


def _of(container: Json, at: str, classes: Mapping[str, str], taken: set[str]) -> Iterator[Ask]:
    name = reading.text(container, "name", at=at)
    asked = reading.table(container, "resources", at=at)
    inside = f"{at}.resources"
    amounts = {**reading.table(asked, "limits", at=inside), **reading.table(asked, "requests", at=inside)}
    for resource, amount in amounts.items():
        try:
            count = Quantity.parse(amount).value
        except BrokenInput as error:
            raise BrokenInput(error.reason, field=f"{inside}[{resource}]") from None
        known = _known(resource, classes) if count else None
        if known is not None:
            if not 0 < count <= _MOST:
                raise BrokenInput(f"{amount} is no number of devices", field=f"{inside}[{resource}]")
            yield Ask(name, resource, count, _claim_name(name, resource, taken), *known)


def _claim_name(container: str, resource: str, taken: set[str]) -> str:
    """Return a name that no other claim of the pod has, which is taken then."""
    kind = re.sub(r"[^a-z0-9]+", "-", resource.partition("/")[2].lower()).strip("-")
    name = f"{container}-{kind}"
    marks = ("", *(f"-{number}" for number in range(2, len(taken) + 3)))
    tries = (name[: _LONGEST - len(mark)].rstrip("-") + mark for mark in marks)
    found = next(each for each in tries if each not in taken)
    taken.add(found)
    return found


def _known(resource: str, classes: Mapping[str, str]) -> tuple[str, tuple[str, ...], str] | None:
    """Return class, selectors and a note for a resource; a class "" where nothing can be asked for; None: it is no device."""
    if resource in classes:
        return classes[resource], (), ""
    vendor, _, name = resource.partition("/")
    if vendor == "nvidia.com" and (own := _nvidia(name)) is not None:
        return own
    if vendor == "huawei.com" and (own := _huawei(name)) is not None:
        return own
    if resource.startswith(_VENDORS):
        return "", (), "no rule knows it; a DeviceClass with this extendedResourceName makes one"
    return None


def _nvidia(name: str) -> tuple[str, tuple[str, ...], str] | None:
    base, dot, _ = name.partition(".shared")
    if base == "gpu" and dot:
        note = "serves several claims at once where an AllocationPolicy's `sharing` selects the node"
        return "gpu.apportion.dev", ("device.allowMultipleAllocations",), note
    if base == "gpu":
        return "gpu.apportion.dev", (), ""
    found = _MIG.fullmatch(base)
    if found is None:
        return None
    if dot:
        return "", (), "MIG devices are not shared; ask for smaller ones"
    profile = f"{found[1]}+{found[2]}" if found[2] else found[1]
    return "mig.apportion.dev", (f'{_GPU}.profile == "{profile}"',), ""


def _huawei(name: str) -> tuple[str, tuple[str, ...], str] | None:
    part = _VNPU.fullmatch(name)
    family = part[1] if part is not None else name
    if not family.startswith("Ascend"):
        return None
    model = family.removeprefix("Ascend")
    of = [f'{_NPU}.model.startsWith("{model}")']
    if model == "310":
        of.append(f'!{_NPU}.model.startsWith("310P")')
    if part is None:
        return "npu.apportion.dev", tuple(of), ""
    template = f"vir{int(part[2]):02d}"
    template += f"_{part[3]}c" if part[3] else ""
    template += f"_{part[4]}g" if part[4] else ""
    template += f"_{part[5][1:]}" if part[5] else ""
    return "vnpu.apportion.dev", (*of, f'{_NPU}.template == "{template}"'), ""
