"""What waits together is placed together, as long as nobody loses by it."""

from apportion.allocator.batch import allocate_batch
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.scheduling.batch import planned, whole
from tests.allocator.builders import chips, claim, cluster, want


def test_nobody_is_planned_where_somebody_would_be_refused() -> None:
    """The queue's order decides who goes without."""
    state = cluster(*chips("n1"))
    demands = [Demand((claim("a", want(kind="whole")),)), Demand((claim("b", want(kind="part")),))]
    answers = dict(zip("ab", allocate_batch(state, demands), strict=True))
    assert whole(answers) == {}
    assert whole({key: answer for key, answer in answers.items() if isinstance(answer, Decision)}) != {}


def test_a_plan_is_dropped_as_a_whole_once_a_node_has_no_room() -> None:
    """What was planned for others counted on the place that is gone."""
    state = cluster(*chips("n1", 2))
    demands = [Demand((claim(name, want(kind="part")),)) for name in "ab"]
    plan = whole(dict(zip("ab", allocate_batch(state, demands), strict=True)))
    assert planned(plan, "a", frozenset(["n1"])) is not None
    assert planned(plan, "a", frozenset(["n2"])) is None
    assert planned(plan, "b", frozenset(["n1"])) is None
