import re
from pathlib import Path

from apportion.agent.rows import ClaimStep
from testbed.chaos.blows import STEPS, boundaries

AGENT = Path(__file__).parents[2] / "operator" / "apportion" / "agent"


def test_every_boundary_that_the_agent_names_is_struck() -> None:
    """One that is added in the agent is added in the storm, or this fails."""
    named = {
        name
        for file in AGENT.rglob("*.py")
        for name in re.findall(r'\b_?at\("([a-z_.]+)"\)', file.read_text())
    }
    assert named | {f"claim.{step.lower()}" for step in ClaimStep} == set(STEPS)
    assert {blow.where for blow in boundaries("nvml")} >= set(STEPS)
