"""The pods that others ask to be beside, or away from, are counted once, in steps, and then as they change."""

from collections.abc import Iterator, Mapping
from random import Random

import pytest

from apportion.allocator.changelog import ChangeLog
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.dra.excess import MOST_POD_TERMS, MOST_VALUES
from apportion.dra.podrelations import HostPort, PodSelection, conflict
from apportion.dra.selection import Requirement
from apportion.dra.selectionindex import SelectionIndex
from apportion.scheduling import pace
from apportion.scheduling.pace import AT_ONCE, Pace
from apportion.scheduling.room import placedpods
from apportion.scheduling.room.placedpods import PlacedPods
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.queued import fleet
from tests.steps import Steps

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PLACED = 1000
SEEDS, CHANGES = 40, 60


def shuns(*selectors: Json) -> Json:
    """Return the spec of a pod that goes beside none of those that one of these selects."""
    terms = [{"topologyKey": "zone", "labelSelector": selector} for selector in selectors]
    return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}


def app(number: int) -> Json:
    return {"matchLabels": {"app": str(number)}}


def but(number: int) -> Json:
    """All pods of the namespace but one app."""
    return {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [str(number)]}]}


def crowded(count: int = PLACED) -> ObservedCluster:
    """Return nodes in a zone on which so many pods run, each of an app of its own."""
    world = fleet({f"n{number}": ("h100", 1) for number in range(4)})
    for number in range(4):
        world.node(f"n{number}", cpu="64", zone="a")
    for number in range(count):
        running(world, number)
    return world


def running(world: ObservedCluster, number: int) -> None:
    metadata = {"name": f"web-{number}", "namespace": "team", "labels": {"app": str(number)}}
    world.see(PODS, {"metadata": metadata, "spec": {"nodeName": f"n{number % 4}", "containers": []}})


@pytest.mark.slow
async def test_hundreds_of_applications_that_wait_keep_what_was_counted_for_them(unanswered: Client) -> None:
    """Each asks for other pods; when a node changes, all are asked about, and none is counted anew."""
    apps, world = 300, crowded(200)
    world.policy(queue={"mostReserved": 0})
    cycle = served_before(world, unanswered)
    for number in range(apps):
        world.claim(f"c{number}", request("gpu"))
        world.pod(f"p{number}", f"c{number}", spec=shuns(but(number)))
    cycle.once()
    world.node("n0", cpu="63", zone="a")
    with Steps(only=PodSelection.matches) as counted:
        cycle.once()
    assert counted.count < 10 * apps


async def test_one_application_more_costs_no_look_at_each_pair_of_the_others(unanswered: Client) -> None:
    """Three hundred wait, each to be away from its own pods, as replicas do."""
    apps, world = 300, crowded(0)
    world.policy(queue={"mostReserved": 0})
    cycle = served_before(world, unanswered)
    for number in range(apps):
        world.claim(f"c{number}", request("gpu", expression="false"))
        world.pod(f"p{number}", f"c{number}", spec=shuns(app(number)))
    cycle.once()
    world.claim("c", request("gpu", expression="false"))
    world.pod("p", "c", spec=shuns(app(apps)))
    assert longest_step(cycle, only=PodSelection.__hash__) < 5 * apps


async def test_pods_without_the_label_that_a_term_names_are_not_looked_at(unanswered: Client) -> None:
    """Sixty-four terms, a thousand pods, of which each term means one."""
    world = crowded()
    cycle = served_before(world, unanswered)
    world.claim("c", request("gpu"))
    world.pod("p", "c", spec=shuns(*map(app, range(MOST_POD_TERMS))))
    with Steps(only=PodSelection.matches) as counted:
        cycle.once()
    assert ("c", "NotAllocated") in world.warned
    assert counted.count < 10 * MOST_POD_TERMS


@pytest.mark.slow
async def test_what_selects_nearly_all_pods_is_counted_in_steps(unanswered: Client) -> None:
    """No step compares more than a few of them."""
    world = crowded()
    cycle = served_before(world, unanswered)
    world.claim("c", request("gpu"))
    world.pod("p", "c", spec=shuns(*map(but, range(MOST_POD_TERMS))))
    assert longest_step(cycle, only=PodSelection.matches) < 3 * AT_ONCE
    assert ("c", "NotAllocated") in world.warned


async def test_what_selects_more_pods_than_is_kept_is_counted_in_steps(
    unanswered: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And kept for as long as it is one pod that asks for it; two count anew in each pass, in steps."""
    monkeypatch.setattr(placedpods, "MOST_MATCHES", 1000)
    world = crowded(200)
    cycle = served_before(world, unanswered)
    for number in range(2):
        first = number * MOST_POD_TERMS
        world.claim(f"c{number}", request("gpu"))
        world.pod(f"p{number}", f"c{number}", spec=shuns(*map(but, range(first, first + MOST_POD_TERMS))))
        longest = [longest_step(cycle, only=PodSelection.matches)]
        world.node("n0", cpu=str(60 + number), zone="a")
        longest.append(longest_step(cycle, only=PodSelection.matches))
        assert max(longest) < 3 * AT_ONCE
        assert (f"c{number}", "NotAllocated") in world.warned


def test_a_pod_that_comes_is_compared_with_what_may_select_it_alone() -> None:
    """However many wait and ask for others."""
    world = crowded(0)
    for number in range(100):
        world.claim(f"c{number}")
        world.pod(f"p{number}", f"c{number}", spec=shuns(app(number)))
    before = world.snapshot.retry_epoch
    with Steps(only=PodSelection.matches) as counted:
        running(world, 100)
    assert (counted.count, world.snapshot.retry_epoch) == (0, before)
    running(world, 99)
    assert world.snapshot.retry_epoch > before


def test_a_selection_of_thousands_of_values_is_not_hashed_once_for_each() -> None:
    """Pods are found under each of its values."""
    world, values = crowded(0), [str(number) for number in range(MOST_VALUES)]
    world.claim("c")
    row = {"key": "app", "operator": "In", "values": values}
    with Steps(only=PodSelection.__hash__) as counted:
        world.pod("p", "c", spec=shuns({"matchExpressions": [row]}))
    assert counted.count < 20


def drawn(rng: Random) -> PodSelection | tuple[HostPort, ...]:
    """Return what pods may match."""
    if rng.random() < 0.15:
        return tuple(HostPort("TCP", "", rng.randint(1, 3)) for _ in range(rng.randint(1, 2)))
    rows = [
        Requirement(
            rng.choice("ab"),
            rng.choice(("In", "NotIn", "Exists")),
            tuple(rng.choices("xyz", k=rng.randint(1, 2))),
        )
        for _ in range(rng.randint(0, 2))
    ]
    namespaces = rng.choice((None, frozenset({"team"}), frozenset({"team", "others"}), frozenset({"none"})))
    return PodSelection(namespaces, None if rng.random() < 0.05 else tuple(rows), rng.random() < 0.5)


def change(rng: Random, world: ObservedCluster) -> None:
    """Let a pod come, change or go."""
    namespace, name = rng.choice(("team", "others")), f"p{rng.randint(0, 9)}"
    labels = {key: rng.choice("xyz") for key in rng.sample("ab", rng.randint(0, 2))}
    port = {"containerPort": 1, "hostPort": rng.randint(0, 3)}
    raw = {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"nodeName": rng.choice(("", "n1", "n2")), "containers": [{"name": "main", "ports": [port]}]},
        "status": {"phase": rng.choice(("Running", "Running", "Succeeded"))},
    }
    if rng.random() < 0.2:
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if rng.random() < 0.2 and any(pod.key == f"{namespace}/{name}" for pod in world.snapshot.pods.values()):
        world.gone(PODS, world.seen[PODS, namespace, name])
    else:
        world.see(PODS, raw)


def waits(rng: Random, world: ObservedCluster) -> None:
    """Let a pod wait, or ask for others than before."""
    keys = rng.sample("abc", rng.randint(1, 2))
    row = {"operator": "NotIn", "values": [rng.choice("xyz")]}
    selectors = [{"matchExpressions": [{"key": key, **row}]} for key in keys]
    world.pod(f"waits-{rng.randint(0, 2)}", "c", spec=shuns(*selectors))


def matching(world: ObservedCluster, asked: PodSelection | tuple[HostPort, ...]) -> Mapping[str, set[str]]:
    """Return the pods that match, by node, of all that there are."""
    found: dict[str, set[str]] = {}
    for pod in world.snapshot.pods.values():
        if isinstance(asked, PodSelection):
            matched = asked.matches(pod.namespace, pod.labels, deleting=pod.deleting)
        else:
            matched = any(conflict([one], [taken]) for one in asked for taken in pod.relations.ports)
        if matched and pod.node is not None and not pod.finished:
            found.setdefault(pod.node, set()).add(pod.uid)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_counted_is_what_all_pods_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever changes, while it is counted too, and however much is forgotten meanwhile."""
    rng = Random(seed)  # noqa: S311 - a test that can be repeated
    if rng.random() < 0.5:
        monkeypatch.setattr(placedpods, "MOST_COUNTED", 4)
        monkeypatch.setattr(placedpods, "MOST_OF_ONE", 2)
        monkeypatch.setattr(placedpods, "MOST_MATCHES", 20)
    monkeypatch.setattr(pace, "AT_ONCE", 3)
    monkeypatch.setattr(Pace.__init__, "__defaults__", (3,))
    world = ObservedCluster()
    placed = PlacedPods(world.snapshot, lambda pod: pod.node, ChangeLog())
    world.claim("c")
    asker = world.pod_value(world.pod("asker", namespace="nobody"))
    kinds = [drawn(rng) for _ in range(8)]
    unfinished: list[Iterator[None]] = []
    for _ in range(CHANGES):
        change(rng, world)
        if rng.random() < 0.3:
            waits(rng, world)
        if rng.random() < 0.3:
            unfinished.append(placed.steps())
        for steps in unfinished:
            next(steps, None)
        asked = rng.choice([*kinds, *world.snapshot.pod_index.selections])
        found = {node: {*pods} for node, pods in placed.matching(asked, asker).items()}
        assert found == matching(world, asked)


def anybody(world: ObservedCluster, count: int) -> None:
    """Let so many pods wait, each with as many terms as it may have, every one of which may mean any pod."""
    world.claim("c")
    for number in range(count):
        rows = [
            {
                "topologyKey": "zone",
                "namespaceSelector": {},
                "labelSelector": {"matchExpressions": [{"key": f"k{number}-{row}", "operator": "Exists"}]},
            }
            for row in range(MOST_POD_TERMS)
        ]
        world.pod(f"p{number}", "c", spec={"affinity": {"podAntiAffinity": {REQUIRED: rows}}})


def test_a_pod_that_comes_is_compared_with_a_bounded_number_of_selections() -> None:
    """Though nobody is selected the refused are asked again then."""
    world = crowded(0)
    anybody(world, 70)
    before = world.snapshot.retry_epoch
    with Steps(only=PodSelection.matches) as counted:
        running(world, 0)
        web = world.pod("web")
        web["metadata"]["labels"] = {"app": "web"}
        world.see(PODS, web)
    assert counted.count == 0
    assert world.snapshot.retry_epoch > before + 1


async def test_pods_that_come_are_compared_with_thousands_of_selections_in_steps(unanswered: Client) -> None:
    """All of which may mean any pod."""
    world = crowded(0)
    cycle = world.cycle(unanswered)
    anybody(world, 10)
    cycle.once()
    for number in range(20):
        running(world, number)
    world.node("n0", cpu="32", zone="a")
    assert longest_step(cycle, only=PodSelection.matches) < 2 * 10 * MOST_POD_TERMS


async def test_terms_of_pods_that_come_are_noted_in_steps(unanswered: Client) -> None:
    """Of plain pods, of which nobody bounds how many terms they have."""
    world = crowded(0)
    cycle = served_before(world, unanswered)
    for number in range(5):
        rows = [{"topologyKey": f"t{number}-{row}", "labelSelector": app(row)} for row in range(500)]
        spec = {"nodeName": "n0", "containers": [], "affinity": {"podAntiAffinity": {REQUIRED: rows}}}
        world.see(PODS, {"metadata": {"name": f"averse-{number}", "namespace": "others"}, "spec": spec})
    world.wait_for("c", request("gpu"))
    assert longest_step(cycle, only=SelectionIndex.put) <= 500
