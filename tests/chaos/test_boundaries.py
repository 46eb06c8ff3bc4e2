import re
from pathlib import Path

from apportion.agent.rows import ClaimStep
from testbed.chaos.killpoints import STEPS, boundaries

AGENT = Path(__file__).parents[2] / "operator" / "apportion" / "agent"


def test_every_step_that_the_agent_names_is_a_kill_point() -> None:
    """A step that is added in the agent must be added to the kill points."""
    named = {
        name
        for file in AGENT.rglob("*.py")
        for name in re.findall(r'\b_?at\("([a-z_.]+)"\)', file.read_text())
    }
    assert named | {f"claim.{step.lower()}" for step in ClaimStep} == set(STEPS)
    assert {point.name for point in boundaries("nvml")} >= set(STEPS)
