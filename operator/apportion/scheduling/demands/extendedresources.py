"""ExtendedResources: pods that ask for devices as for an extended resource (`nvidia.com/gpu: 1`, KEP-5004).

In: the snapshot, the clock. Out: the ResourceClaimTemplates that rewritten pods wait for; pods that nobody will serve, with why; and
what kube-scheduler will look for, for a pod that has claims of ours as well.

kube-scheduler makes the claim of such a pod in memory, allocates it itself, and writes it when it binds the pod. The guard taint keeps
it off our devices, and a claim that somebody else made for the pod it deletes. So admission rewrites pods to ask for claims of templates
(manifests/components/extended-resources), and the operator makes the templates (ADR 29).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from apportion.api.contract import MANAGED
from apportion.cluster.managedclasses import ManagedClasses
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim, Request, RequestSlot
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.pod import Pod
from apportion.scheduling.demands.waiting import ready
from apportion.scheduling.pace import Changed

_PATIENCE = 5.0
"""Seconds within which kube-scheduler has bound a pod that a device plugin serves."""
_TEMPLATE = re.compile(r"apportion-([1-9][0-9]{0,2})-(.+)")
"""As admission names the template: the number of devices, the DeviceClass."""
_LONGEST_NAME = 50
"""Characters of a class's name for which admission rewrites pods: it becomes part of the names of their claims."""
_MOST = 999
"""Devices for which a container is rewritten."""
_AT_ONCE = 64
"""Pods that are spoken of in one pass, and templates of a namespace."""


@dataclass(frozen=True, slots=True)
class Template:
    """A ResourceClaimTemplate that a rewritten pod names."""

    namespace: str
    name: str
    count: int
    device_class: str


@dataclass(frozen=True, slots=True)
class LeftPod:
    """A pod that asks for an extended resource of our devices, and that nobody serves."""

    pod: Pod
    resource: str
    device_class: str
    labelled: bool
    """Whether the class has the label by which admission finds it."""
    plugins: int
    """How many nodes offer the resource through a device plugin."""
    unchanged: str
    """Why admission leaves such a pod as it is wherever and whenever it is made; empty: it does not."""


def backed(pod: Pod, managed: ManagedClasses) -> Mapping[str, str]:
    """Return the extended resources that a pod asks for and that a DeviceClass stands behind, with the class."""
    found, requests = managed.extended_resources, pod.requests
    # A pod may request thousands, of which hardly any is one of ours.
    names = min(requests, found, key=len)
    return {name: found[name] for name in names if "/" in name and name in found and requests.get(name)}


def as_claim(pod: Pod, resource: str, device_class: str) -> Claim:
    """Return the claim that kube-scheduler has in mind for an extended resource of a pod."""
    asked = Request("devices", device_class, count=pod.requests[resource])
    return Claim(pod.namespace, f"{pod.name} ({resource})", slots=(RequestSlot("devices", (asked,)),))


class ExtendedResources:
    """Follows the pods that no node has yet."""

    def __init__(self, snapshot: Snapshot, clock: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._cursor = -1
        """How far the changes of pods were read."""
        self._known: object = None
        """The extended resources, managed classes and existing classes that the pods were read by."""
        self._templates: dict[str, frozenset[Template]] = {}
        """By pod (UID)."""
        self._named: dict[str, Counter[Template]] = {}
        """By namespace: by how many pods each of these is named: thousands of pods may name a hundred each."""
        self._since: dict[str, float] = {}
        """Pods (UIDs) to speak of, and when each was first seen so."""
        self._changed = Changed[str]()
        """Pods, by UID."""

    def templates(self) -> set[Template]:
        """Return the templates from which claims of waiting pods are to be made, and were not yet; of a namespace with many others each time."""
        for _ in self.steps():
            pass
        found = set[Template]()
        for named in self._named.values():
            for template in tuple(islice(named, _AT_ONCE)):
                named[template] = named.pop(template)  # it goes last from now on
                found.add(template)
        return found

    def left(self) -> Iterator[LeftPod]:
        """Yield pods that nobody serves, each once as long as it does not change; some are left for later passes. Others may run in between."""
        now = self._clock()
        plugins: dict[str, int] = {}
        for uid, since in tuple(islice(self._since.items(), _AT_ONCE)):
            if now - since < _PATIENCE:
                return  # the others came later
            del self._since[uid]
            pod = self._snapshot.pods.get(uid)
            if pod is None:
                continue  # it has gone since the changes were read: others run in between
            yield from left_of(pod, self._snapshot, plugins)

    def steps(self) -> Iterator[None]:
        """Look at the pods that changed; yields where others may run."""
        snapshot, managed = self._snapshot, self._snapshot.managed
        self._cursor, changed = snapshot.changes.pods.since(self._cursor)
        # A class may become ours after its pods were seen: admission, and each watch, see it at a time of their own.
        known = managed.extended_resources, frozenset(managed.policies), managed.known
        if changed is None or known != self._known:
            self._known, changed = known, [*snapshot.pods, *self._since, *self._templates]
        yield from self._changed.steps(changed, self._look)

    def _look(self, uid: str) -> None:
        pod, managed = self._snapshot.pods.get(uid), self._snapshot.managed
        waits = pod is not None and pod.node is None and ready(pod)
        wanted = frozenset(_templates(pod, managed)) if pod is not None and waits else frozenset()
        self._name(uid, wanted)
        if pod is None or not is_left(pod, managed):
            self._since.pop(uid, None)
        else:
            self._since.setdefault(uid, self._clock())

    def _name(self, uid: str, wanted: frozenset[Template]) -> None:
        """Note the templates that a pod waits for."""
        former = self._templates.pop(uid, frozenset())
        if wanted:
            self._templates[uid] = wanted
        for each in wanted - former:
            self._named.setdefault(each.namespace, Counter())[each] += 1
        for each in former - wanted:
            named = self._named[each.namespace]
            named[each] -= 1
            if not named[each]:
                del named[each]
            if not named:
                del self._named[each.namespace]


def is_left(pod: Pod, managed: ManagedClasses) -> bool:
    """Say whether a pod waits for a node and asks for an extended resource of our devices, so that no claim is made of it."""
    return (
        pod.node is None
        and ready(pod)
        and any(name in managed.policies for name in backed(pod, managed).values())
    )


def left_of(pod: Pod, snapshot: Snapshot, plugins: dict[str, int]) -> Iterator[LeftPod]:
    """Yield the extended resources of our devices that a pod asks for; `plugins`: by resource, how many nodes offer it, as far as they were counted."""
    managed = snapshot.managed
    for resource, name in backed(pod, managed).items():
        found = snapshot.state.classes.get(name)  # others run in between: it may be gone
        if name in managed.policies and found is not None:
            if resource not in plugins:
                nodes = snapshot.nodes.values()
                plugins[resource] = sum(bool(node.allocatable.get(resource)) for node in nodes)
            labelled, why = found.labels.get(MANAGED) == "true", _unchanged(pod, resource, found)
            yield LeftPod(pod, resource, name, labelled, plugins[resource], why)


def _unchanged(pod: Pod, resource: str, found: DeviceClass) -> str:
    """Return why admission leaves a pod as it is (`matchConditions` of manifests/components/extended-resources); empty: it does not."""
    if resource != found.extended_resource:
        return "it goes by spec.extendedResourceName of a class alone"
    if len(found.name) > _LONGEST_NAME:
        return f"the class's name has more than {_LONGEST_NAME} characters"
    return f"a container asks for more than {_MOST}" if pod.requests[resource] > _MOST else ""


def _templates(pod: Pod, managed: ManagedClasses) -> Iterator[Template]:
    for entry in pod.claims:
        found = _TEMPLATE.fullmatch(entry.template) if entry.claim is None and not entry.needless else None
        if found is not None and found[2] in managed.policies and found[2] in managed.known:
            yield Template(pod.namespace, entry.template, int(found[1]), found[2])
