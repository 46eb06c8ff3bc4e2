"""Pods that only a new node would serve: autoscalers see them, kube-scheduler does not try them, and a new node serves them."""

from testbed.installation import Installation
from tests.e2e.newnode import BLUE, CLASS, comes, seen_by_autoscalers
from tests.e2e.tenant import GATE, Tenant, claim, gates, pod, request


async def test_a_pod_that_no_node_could_serve_is_seen_by_autoscalers_and_served_by_a_new_node(
    installation: Installation, team: Tenant
) -> None:
    """PodScheduled is False with reason Unschedulable behind the gate; then a node with such a device comes."""
    await team.make(claim("blue", request(CLASS, BLUE)))
    made = await team.make(pod("blue", "blue"))
    assert gates(made) == [GATE]

    await seen_by_autoscalers(team, "blue")

    found = await comes(installation, team, "blue")
    assert found["spec"]["nodeName"] == "new"
    assert await team.allocated("blue") == ["new/gpu-0"]
    await team.end_by_force("blue")
