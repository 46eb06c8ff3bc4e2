"""A defect that one demand meets is told, and the others are served."""

from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from apportion.cluster.client import Client
from tests.scheduling.poisoned import poisoned_world


async def test_a_defect_keeps_nobody_else_waiting(unanswered: Client) -> None:
    """The log has all of it, the claim an Event."""
    world = poisoned_world()
    with capture_logs() as logs:
        cycle = world.cycle(unanswered)
        cycle.once()
        cycle.once()
    assert world.places() == {"second": "n1"}
    assert [line["demand"] for line in logs if line["event"] == "demand.defect"] != []
    assert ("first", "Defect") in world.warned
    assert ("second", "Defect") not in world.warned


async def test_a_defect_that_the_plan_meets_is_logged_and_counted(unanswered: Client) -> None:
    """With its traceback; the demands are then decided one by one, and the one that is to blame is counted itself."""
    world = poisoned_world()
    before = defects()
    with capture_logs() as logs:
        world.cycle(unanswered).once()
    [line] = [line for line in logs if line["event"] == "plan.defect"]
    assert (line["log_level"], line["demands"], line["exc_info"]) == ("error", 2, True)
    assert defects() - before == 2
    assert world.places() == {"second": "n1"}


def defects() -> float:
    """Return how many defects the metric has counted."""
    return REGISTRY.get_sample_value("apportion_decisions_total", {"verdict": "defect"}) or 0.0
