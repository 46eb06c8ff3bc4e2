import re
from pathlib import Path

from apportion.agent.rows import ClaimStep, NetworkStep
from testbed.chaos.killpoints import NETWORK_STEPS, SHARING_STEPS, STEPS, boundaries
from tests.agent.rdma.test_network_crashes import HERE_ONLY

AGENT = Path(__file__).parents[2] / "operator" / "apportion" / "agent"
NOT_REACHED = {
    "network.rdma_moved",
    "network.rdma_brought",
    "network.renamed",
}
"""Steps of RDMA devices in namespaces of their own, which take a kernel that has them; and of an interface that the kernel gave back under another name."""


def test_an_agent_is_killed_at_every_step_that_it_names() -> None:
    """A step that is added in the agent must be added to the kill points, or to the crash tests of networks."""
    named = {
        name
        for file in AGENT.rglob("*.py")
        for name in re.findall(r'\b_?at\("([a-z_.]+)"\)', file.read_text())
    }
    named |= {f"claim.{step.lower()}" for step in ClaimStep}
    named |= {f"network.{step.lower()}" for step in NetworkStep}
    points = {*STEPS, *SHARING_STEPS, *NETWORK_STEPS}
    assert named - NOT_REACHED == points | HERE_ONLY
    assert {point.name for point in boundaries("nvml", network=True)} >= points
