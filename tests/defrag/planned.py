"""A small cluster whose pods have controllers, and plans for it as a leader makes them."""

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

from apportion.allocator.finished import finished
from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import DEFRAGS, PODS
from apportion.scheduling.defrag.movables import MovableReader, Movables, Scope
from apportion.scheduling.defrag.planning import Picture, Planned
from apportion.scheduling.defrag.policies import DefragPolicies
from apportion.scheduling.preemption.evictor import Evictor
from tests.cli.worlds import Cluster, profile_request
from tests.observedcluster import GPU

Json = dict[str, Any]


def cards(nodes: int = 2) -> Cluster:
    """Return nodes with a card each, and managed classes for whole cards and partitions."""
    cluster = Cluster()
    for number in range(1, nodes + 1):
        cluster.node(f"n{number}", cpu="64", **{"kubernetes.io/hostname": f"n{number}"})
        cluster.card(f"n{number}")
    kind = f'device.attributes["{GPU}"].type'
    cluster.device_class("gpu", f'{kind} == "gpu"')
    cluster.device_class("mig", f'{kind} == "mig"')
    cluster.policy(classes=("gpu", "mig"), queue={"mostReserved": 0})
    return cluster


def part(profile: str, start: int) -> str:
    """Return the name of a partition of the card `gpu-0`."""
    number = {"1g.10gb": 19, "3g.40gb": 9, "7g.80gb": 0}[profile]
    return f"gpu-0-mig-{profile.replace('.', '')}-{number}-{start}"


def makes(cluster: Cluster, name: str, profile: str, *, owner: str = "web", kind: str = "ReplicaSet") -> Json:
    """Let a controller make a pod with a claim of its own, behind our gate."""
    pod = {
        "metadata": {
            "name": name,
            "namespace": "team",
            "labels": {"profile": profile},
            "creationTimestamp": cluster.time(),
            "ownerReferences": [{"kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}],
            "uid": f"uid-{name}-{cluster.version}",
        },
        "spec": {
            "schedulingGates": [{"name": GATE}],
            "resourceClaims": [{"name": "device", "resourceClaimTemplateName": "t"}],
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        },
        "status": {
            "phase": "Pending",
            "resourceClaimStatuses": [{"name": "device", "resourceClaimName": f"{name}-claim"}],
        },
    }
    owned = [{"kind": "Pod", "name": name, "uid": pod["metadata"]["uid"], "controller": True}]
    cluster.claim(
        f"{name}-claim",
        profile_request(profile),
        uid=f"uid-{name}-claim-{cluster.version}",
        ownerReferences=owned,
        creationTimestamp=cluster.time(),
    )
    return cluster.see(PODS, pod)


def runs(cluster: Cluster, name: str, node: str, profile: str, start: int, **more: str) -> Json:
    """Let such a pod run since long ago."""
    pod = makes(cluster, name, profile, **more)
    claim = copy.deepcopy(cluster.objects["ResourceClaim", "team", f"{name}-claim"])
    users = [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}]
    cluster.allocate(
        claim, node, part(profile, start), reservedFor=users, timestamp=cluster.time(after=-7200)
    )
    return starts(cluster, name, node)


def starts(cluster: Cluster, name: str, node: str) -> Json:
    """Show that a pod lost its gate, was bound and runs."""
    pod = copy.deepcopy(cluster.objects["Pod", "team", name])
    pod["spec"] = {**pod["spec"], "schedulingGates": [], "nodeName": node}
    pod["status"] = {**pod["status"], "phase": "Running"}
    return cluster.see(PODS, pod)


def scattered(**more: str) -> Cluster:
    """Return two cards with a small partition on each."""
    cluster = cards()
    runs(cluster, "a", "n1", "1g.10gb", 3, **more)
    runs(cluster, "b", "n2", "1g.10gb", 0, **more)
    return cluster


def policy(cluster: Cluster, **spec: Any) -> None:
    """Make a policy that wants a whole card."""
    free = {"wholeCards": {"deviceClass": "gpu"}}
    raw = {"metadata": {"name": "tidy"}, "spec": {"free": free, "schedule": "* * * * *", **spec}}
    cluster.see(DEFRAGS, raw)


def plan(cluster: Cluster, client: Client, names: frozenset[str] | None = None) -> tuple[Planned, Movables]:
    """Plan as the leader does; `names`: of the nodes that count, by default all that are not cordoned."""
    candidates = cluster.cycle(client).decider.candidates
    if names is None:
        names = frozenset(node.name for node in cluster.snapshot.nodes.values() if not node.unschedulable)
    scope = Scope(nodes=names, unattended=True)
    found = finished(MovableReader(cluster.snapshot, candidates, cluster.seconds(), scope).gather())
    [made] = cluster.snapshot.defrags.values()
    return Picture.of(made.spec, cluster.snapshot, names, found.movables, found.room).plan(), found


def policies(
    cluster: Cluster, server: object, client: Client, *, fence: Callable[[], None] = lambda: None
) -> DefragPolicies:
    """Return what a leader looks at policies with; `server` takes statuses, `client` is for all else."""
    cycle = cluster.cycle(client)
    return DefragPolicies(
        cast("Client", server),
        cluster.snapshot,
        cycle.decider,
        cycle.places,
        Evictor(client, fence=lambda: None),
        fence=fence,
        now=lambda: datetime.fromtimestamp(cluster.seconds(), UTC),
        clock=cluster.clock,
        wake=lambda: None,
    )
