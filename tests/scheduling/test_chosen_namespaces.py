"""Terms of pod affinity may choose namespaces by labels: kube-scheduler's answer about a node is known before."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.indexes import namespaceindex
from apportion.cluster.kinds import NAMESPACES, PODS
from apportion.dra.excess import MOST_POD_TERMS, excess_of
from apportion.dra.pod import Pod
from apportion.dra.podrelations import NamespaceChoice, PodSelection
from apportion.dra.selection import Requirement
from apportion.scheduling.room.neighbours import are_apart
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.queued import fleet
from tests.scheduling.test_neighbours import HOST, neighbour, place, relation, zones
from tests.steps import Steps

TEAM: Json = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
NO_TEAM: Json = {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}


def namespace(world: ObservedCluster, name: str, **labels: str) -> Json:
    """Show a namespace with these labels."""
    return world.see(NAMESPACES, {"metadata": {"name": name, "labels": labels}})


def roomy() -> ObservedCluster:
    """Return a node with several devices."""
    world = fleet({"n1": ("h100", 4)})
    world.node("n1", cpu="64", **{HOST: "n1"})
    return world


@pytest.mark.parametrize(("team", "node"), [("a", "n1"), ("b", None)])
async def test_a_pod_goes_beside_those_of_namespaces_that_it_chooses(
    unanswered: Client, team: str, node: str | None
) -> None:
    """Its own is none of them, unless it has the labels."""
    world = zones(n1="a", n2="b")
    namespace(world, "others", team=team)
    namespace(world, "team")
    neighbour(world, "web", "n1", namespace="others")
    neighbour(world, "own", "n2")
    assert place(world, unanswered, relation("podAffinity", **TEAM)) == node


@pytest.mark.parametrize(("team", "nodes"), [("a", {"n2"}), ("b", {"n1", "n2"})])
async def test_a_pod_shuns_those_of_namespaces_that_it_chooses(
    unanswered: Client, team: str, nodes: set[str]
) -> None:
    """No others."""
    world = zones(n1="a", n2="b")
    namespace(world, "others", team=team)
    neighbour(world, "web", "n1", namespace="others")
    assert place(world, unanswered, relation("podAntiAffinity", **TEAM)) in nodes


async def test_namespaces_that_are_named_count_beside_those_that_are_chosen(unanswered: Client) -> None:
    """A term selects the pods of both (core/v1, `PodAffinityTerm`)."""
    world = zones(n1="a", n2="b", n3="c")
    namespace(world, "chosen", team="a")
    neighbour(world, "web", "n1", namespace="named")
    neighbour(world, "web", "n2", namespace="chosen")
    assert place(world, unanswered, relation("podAntiAffinity", namespaces=["named"], **TEAM)) == "n3"


@pytest.mark.parametrize(("team", "node"), [("a", None), ("b", "n1")])
async def test_a_pod_is_kept_off_by_those_that_choose_its_namespace(
    unanswered: Client, team: str, node: str | None
) -> None:
    """By the labels that it has now."""
    world = zones(n1="a")
    namespace(world, "team", team=team)
    neighbour(world, "alone", "n1", namespace="others", **relation("podAntiAffinity", **TEAM))
    assert place(world, unanswered, {}, {"app": "web"}) == node


async def test_a_namespace_that_gets_other_labels_is_chosen_no_longer(unanswered: Client) -> None:
    """By a pod that keeps those of it off."""
    world = roomy()
    namespace(world, "team", team="a")
    neighbour(world, "alone", "n1", namespace="others", **relation("podAntiAffinity", **TEAM))
    world.claim("c", request("gpu"))
    pod, cycle = world.pod("c", "c"), world.cycle(unanswered)
    pod["metadata"]["labels"] = {"app": "web"}
    world.see(PODS, pod)
    cycle.once()
    assert world.places() == {}
    namespace(world, "team", team="b")
    cycle.once()
    assert world.places() == {"c": "n1"}


async def test_a_namespace_that_nobody_has_seen_has_no_labels(unanswered: Client) -> None:
    """A pod there is kept off by what such a namespace would be kept off by (`GetNamespaceLabelsSnapshot`)."""
    world = zones(n1="a")
    neighbour(world, "alone", "n1", namespace="others", **relation("podAntiAffinity", **NO_TEAM))
    assert place(world, unanswered, {}, {"app": "web"}) is None
    namespace(world, "team", team="a")
    assert place(world, unanswered, {}, {"app": "web"}) == "n1"


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
async def test_labels_that_a_namespace_gets_count_in_the_next_pass(unanswered: Client, kind: str) -> None:
    """Who was refused is asked again, and pods that were counted are counted anew."""
    world = zones(n1="a")
    before, after = ("b", "a") if kind == "podAffinity" else ("a", "b")
    namespace(world, "others", team=before)
    neighbour(world, "web", "n1", namespace="others")
    world.wait_for("c", request("gpu"), relation(kind, **TEAM))
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places().get("c") is None
    namespace(world, "others", team=after)
    cycle.once()
    assert world.places().get("c") == "n1"


async def test_a_pod_that_is_its_own_company_needs_its_own_namespace_chosen(unanswered: Client) -> None:
    """The first of its kind goes anywhere."""
    for team, node in (("a", "n1"), ("b", None)):
        world = zones(n1="a")
        namespace(world, "team", team=team)
        assert place(world, unanswered, relation("podAffinity", **TEAM), {"app": "web"}) == node


async def test_all_terms_of_affinity_mean_one_pod(unanswered: Client) -> None:
    """In a namespace that each of them chooses."""
    world = zones(n1="a", n2="b")
    namespace(world, "one", team="a")
    namespace(world, "both", team="a", stage="live")
    neighbour(world, "web", "n1", namespace="one")
    neighbour(world, "web", "n2", namespace="both")
    terms = relation("podAffinity", **TEAM)
    rows = terms["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    rows.append(rows[0] | {"namespaceSelector": {"matchLabels": {"stage": "live"}}})
    assert place(world, unanswered, terms) == "n2"


async def test_namespaces_are_compared_in_steps_once_and_then_as_they_change(unanswered: Client) -> None:
    """However many there are."""
    world = roomy()
    for number in range(5000):
        namespace(world, f"team-{number}", number=str(number))
    neighbour(world, "web", "n1", namespace="team-7")
    cycle = served_before(world, unanswered)
    world.wait_for("c", request("gpu"), relation("podAntiAffinity", **NO_TEAM))
    assert 1000 < longest_step(cycle, only=NamespaceChoice.matches) <= 2048
    namespace(world, "team-7", team="a")
    assert 0 < longest_step(cycle, only=NamespaceChoice.matches) < 10
    assert world.places().get("c") == "n1"


async def test_of_namespaces_with_a_label_only_those_are_compared_that_have_it(unanswered: Client) -> None:
    """Found by its value."""
    world = roomy()
    for number in range(500):
        namespace(world, f"team-{number}", team=str(number))
    neighbour(world, "web", "n1", namespace="team-7")
    cycle = served_before(world, unanswered)
    chosen: Json = {"namespaceSelector": {"matchLabels": {"team": "7"}}}
    world.wait_for("c", request("gpu"), relation("podAffinity", **chosen))
    assert longest_step(cycle, only=NamespaceChoice.matches) < 10
    assert world.places().get("c") == "n1"


def test_namespaces_wake_nobody_where_no_term_chooses_any() -> None:
    """Most clusters have none."""
    world = ObservedCluster()
    before = world.snapshot.retry_epoch
    namespace(world, "others", team="a")
    namespace(world, "others", team="b")
    assert world.snapshot.retry_epoch == before


def test_requirements_on_namespaces_are_bounded_as_those_on_pods_are() -> None:
    """Each is compared with all namespaces."""
    rows = [{"key": f"k{number}", "operator": "Exists"} for number in range(257)]
    spec = relation("podAffinity", namespaceSelector={"matchExpressions": rows})
    found = excess_of(Pod.from_json({"metadata": {"name": "p", "namespace": "team"}, "spec": spec}))
    assert found is not None
    assert (found.what, found.count) == ("requirements in labelSelectors", 258)


def test_a_pod_with_very_many_requirements_on_namespaces_is_read_in_part() -> None:
    """They count as entries of its lists."""
    rows = [{"key": f"k{number}", "operator": "Exists"} for number in range(5000)]
    raw = {"metadata": {"name": "p", "namespace": "team"}}
    pod = Pod.from_json(
        raw | {"spec": relation("podAntiAffinity", HOST, namespaceSelector={"matchExpressions": rows})}
    )
    assert pod.unread is not None
    assert pod.unread.field == "spec.affinity.podAntiAffinity"


async def test_what_was_counted_for_other_namespaces_is_compared_with_no_pod(unanswered: Client) -> None:
    """Also where a namespace comes every few seconds."""
    world = roomy()
    namespace(world, "others", team="a")
    neighbour(world, "web", "n1", namespace="others")
    cycle = served_before(world, unanswered)
    world.wait_for("c", request("gpu"), relation("podAntiAffinity", **TEAM))
    for number in range(20):
        namespace(world, f"n{number}", team="a")
        cycle.once()
    neighbour(world, "more", "n1", namespace="others")
    assert 0 < longest_step(cycle, only=PodSelection.matches) < 5
    assert "c" not in world.places()


def chooses(number: int) -> PodSelection:
    """Return a selection of the pods of all namespaces but one."""
    other = Requirement("number", "NotIn", (str(number),))
    return PodSelection(None, (), chosen=(NamespaceChoice(frozenset({"named"}), (other,)),))


def test_namespaces_of_the_choices_that_were_asked_for_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What left is found anew."""
    monkeypatch.setattr(namespaceindex, "MOST_KEPT", 10)
    world = ObservedCluster()
    for number in range(20):
        namespace(world, f"team-{number}", number=str(number))
    index = world.snapshot.namespaces
    everybody = {"named", *(f"team-{number}" for number in range(20))}
    for number in range(30):
        [known] = index.named(chooses(number)).known
        assert {*known} == everybody - {f"team-{number}"}
        assert len(known) == len({*known})
    assert len(index._kept) == 10
    for number, compared in ((29, 0), (0, 20)):
        with Steps(only=NamespaceChoice.matches) as counted:
            index.named(chooses(number))
        assert counted.count == compared


def test_namespaces_that_come_and_go_leave_nothing_behind() -> None:
    """They get numbers, which begin anew now and then."""
    world = ObservedCluster()
    namespace(world, "stays", number="0")
    index = world.snapshot.namespaces
    for number in range(1, 3000):
        raw = namespace(world, f"team-{number}", number=str(number))
        [known] = index.named(chooses(number - 1)).known
        assert {*known} == {"named", f"team-{number}", *(["stays"] if number > 1 else [])}
        world.gone(NAMESPACES, raw)
    [known] = index.named(chooses(7)).known
    assert {*known} == {"named", "stays"}
    assert known.mask.bit_length() <= 1030
    assert len(index._numbers) == 1


async def test_pods_with_many_choices_cost_a_pass_nothing_in_which_no_namespace_changed(
    unanswered: Client,
) -> None:
    """All of what each has is kept, however many namespaces it is."""
    world = roomy()
    for number in range(300):
        namespace(world, f"team-{number}", number=str(number))
    neighbour(world, "web", "n1", namespace="team-1")
    cycle = served_before(world, unanswered)
    for pod in range(10):
        spec = relation("podAntiAffinity")
        rows = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        rows[:] = [
            rows[0]
            | {
                "namespaceSelector": {
                    "matchExpressions": [{"key": f"k{pod}-{row}", "operator": "DoesNotExist"}]
                }
            }
            for row in range(MOST_POD_TERMS)
        ]
        world.wait_for(f"c{pod}", request("gpu"), spec)
    assert longest_step(cycle, only=NamespaceChoice.matches) <= 2048
    namespace(world, "team-1", number="1", team="a")
    with Steps(only=NamespaceChoice.matches) as counted:
        cycle.once()
    assert counted.count == 10 * MOST_POD_TERMS
    assert world.places().keys() == {"before"}


@pytest.mark.parametrize(("team", "apart"), [("a", True), ("b", False)])
def test_pods_of_a_plan_are_apart_where_one_chooses_the_namespace_of_the_other(
    team: str, *, apart: bool
) -> None:
    """Whichever of them it is."""
    world = ObservedCluster()
    namespace(world, "team", team=team)
    plain = world.pod_value(neighbour(world, "web"))
    averse = world.pod_value(neighbour(world, "averse", **relation("podAntiAffinity", **TEAM)))
    selects = world.snapshot.namespaces.selects
    assert are_apart(plain, averse, selects) == are_apart(averse, plain, selects) == apart
