"""One claim's or pod's story on a page.

In: the cluster as observed, a name. Out: the answer of `apportion why`, with the objects that belong to it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from apportion.allocator.explain.render import render
from apportion.cli.answers.story import Story, What, find, story_of
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.scheduling.events.events import with_names
from apportion.web.observed import Observed

LONGEST = 5.0
"""Seconds after which no further remedy is tried."""
MOST_OBJECTS = 8
"""Pods of a claim, or claims of a pod, whose Events are read, too."""


@dataclass(frozen=True, slots=True)
class Object:
    """An object that Events are about."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class StoryPage:
    """What is known of a claim or pod."""

    what: What
    namespace: str
    name: str
    created: str
    story: Story
    by_nodes: str
    """What the allocator found on each group of nodes; empty: it was not asked."""
    claims: tuple[str, ...]
    """Those of a pod, `namespace/name`."""
    pods: tuple[str, ...]
    """Those that name a claim."""
    priority: int | None
    gates: tuple[str, ...]
    node: str
    """Of a pod that is bound; empty: it is not."""
    classes: tuple[str, ...]
    objects: tuple[Object, ...]
    """Whose Events belong to it, itself first."""


def story_page(
    observed: Observed, what: What, namespace: str, name: str, clock: Callable[[], float]
) -> StoryPage | None:
    """Return the story; None: there is no such claim or pod."""
    snapshot = observed.snapshot
    found = find(snapshot, what, namespace, name)
    if found is None:
        return None
    until = clock() + LONGEST
    story = story_of(observed.world, observed.decisions(), found, lambda: clock() < until)
    refusal = story.reason.refusal if story.reason is not None else None
    by_nodes = with_names(render(refusal.explanation), snapshot) if refusal is not None else ""
    if isinstance(found, Claim):
        return _of_claim(snapshot, found, story, by_nodes)
    return _of_pod(snapshot, found, story, by_nodes)


def _of_claim(snapshot: Snapshot, claim: Claim, story: Story, by_nodes: str) -> StoryPage:
    pods = sorted(snapshot.users(claim), key=lambda pod: pod.key)
    return StoryPage(
        What.CLAIM, claim.namespace, claim.name, claim.created, story, by_nodes,
        claims=(), pods=tuple(pod.key for pod in pods), priority=None, gates=(), node="",
        classes=tuple(sorted(claim.classes)),
        objects=(_claim(claim), *(_pod(pod) for pod in pods[:MOST_OBJECTS])),
    )  # fmt: skip


def _of_pod(snapshot: Snapshot, pod: Pod, story: Story, by_nodes: str) -> StoryPage:
    claims = [claim for claim in snapshot.named_claims(pod) if claim is not None]
    return StoryPage(
        What.POD, pod.namespace, pod.name, pod.created, story, by_nodes,
        claims=tuple(claim.key for claim in claims), pods=(), priority=pod.priority, gates=tuple(pod.gates),
        node=pod.node or "", classes=(),
        objects=(_pod(pod), *(_claim(claim) for claim in claims[:MOST_OBJECTS])),
    )  # fmt: skip


def _claim(claim: Claim) -> Object:
    return Object("ResourceClaim", claim.name, claim.uid)


def _pod(pod: Pod) -> Object:
    return Object("Pod", pod.name, pod.uid)
