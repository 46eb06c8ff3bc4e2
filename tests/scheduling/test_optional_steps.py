"""A defect in a step of a pass that no decision needs keeps nobody's pod from starting, and ends no replica."""

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from apportion.api.contract import ALLOCATION_FINALIZER, GATE
from apportion.cluster.client import Client
from tests.observedcluster import ObservedCluster, request

STEPS = {
    "reports": "apportion.scheduling.reports.reports.Reports.tell",
    "preemption": "apportion.scheduling.preemption.preemptions.Preemptions.consider",
    "autoscaling": "apportion.scheduling.autoscaling.autoscaling.Autoscaling.look",
    "tidying": "apportion.scheduling.clearing.tidying.Tidying.tidy",
    "ahead": "apportion.scheduling.cycle.precompute",
}


def broken(*_args: object, **_more: object) -> object:
    """Break down at the first step, as a generator does."""
    yield
    raise ZeroDivisionError("a defect")


@pytest.fixture
def world() -> ObservedCluster:
    """Give a card that a pod behind its gate has, and another one that is free."""
    made = ObservedCluster()
    for node in ("n1", "n2"):
        made.node(node)
        made.card(node)
    made.device_class("gpu")
    used = made.claim("first", request("gpu"), finalizers=[ALLOCATION_FINALIZER])
    made.pod("first", "first", gates=(GATE,))
    made.allocate(used, "n1", "gpu-0", timestamp=made.time())
    return made


@pytest.mark.leaves_out_steps
@pytest.mark.parametrize("step", STEPS)
async def test_others_are_served_and_gates_open(
    unanswered: Client, monkeypatch: pytest.MonkeyPatch, world: ObservedCluster, step: str
) -> None:
    """The replica ended, and so did the next one."""
    monkeypatch.setattr(STEPS[step], broken)
    cycle, before = world.cycle(unanswered), left_out(step)
    with capture_logs() as logs:
        cycle.once()  # nobody waits: the step `ahead` is done as well
        world.wait_for("second", request("gpu"))
        cycle.once()
        first = next(pod for pod in world.snapshot.pods.values() if pod.name == "first")
        assert cycle._writes.ungating(first.uid)
    assert world.places() == {"first": "n1", "second": "n2"}
    assert left_out(step) > before
    [line] = [line for line in logs if line["event"] == "step.defect"]
    assert (line["log_level"], line["step"], line["exc_info"]) == ("error", step, True)


@pytest.mark.leaves_out_steps
async def test_a_step_is_tried_in_each_pass_and_logged_once_a_minute(
    unanswered: Client, monkeypatch: pytest.MonkeyPatch, world: ObservedCluster
) -> None:
    """Passes come many times a second, and its trace would fill the log."""
    monkeypatch.setattr(STEPS["tidying"], broken)
    cycle, before = world.cycle(unanswered), left_out("tidying")
    with capture_logs() as logs:
        for _ in range(4):
            cycle.once()
            world.clock.now += 25.0
    assert left_out("tidying") - before == 4
    assert len([line for line in logs if line["event"] == "step.defect"]) == 2


def left_out(step: str) -> float:
    """Return how often a step was left out."""
    return REGISTRY.get_sample_value("apportion_defective_steps_total", {"step": step}) or 0.0
