"""Every example ends as its file says, and leaves nothing behind."""

import pytest

from testbed.demo.demo import read_examples
from testbed.eventually import eventually
from testbed.example import Example, View
from testbed.installation import Installation
from tests.e2e.tenant import PARTITIONS, PATIENCE, Tenant


@pytest.mark.parametrize("example", read_examples(), ids=lambda each: each.name)
async def test_an_example_reaches_its_expected_end_and_leaves_nothing(
    installation: Installation, team: Tenant, example: Example
) -> None:
    """Pods, devices, partitions in the hardware, injected environment and Events are as the file states."""
    cluster, namespace = installation.cluster, team.namespace
    await cluster.kubectl("apply", "-n", namespace, "-f", str(example.path))

    async def look() -> list[str]:
        return example.differences(await View.of(installation, namespace))

    differences = await eventually(look, lambda found: not found, within=PATIENCE)
    assert differences == []

    # A pod of an example may have been evicted for another one.
    gone = ("--wait=false", "--ignore-not-found")
    await cluster.kubectl("delete", "-n", namespace, "-f", str(example.path), *gone)

    async def left() -> list[str]:
        partitions, _ = await cluster.api.items(PARTITIONS)
        held = [each["metadata"]["name"] for each in partitions if each["spec"].get("holder")]
        return held + [each["metadata"]["name"] for each in await team.claims()]

    assert await eventually(left, lambda names: not names, within=PATIENCE) == []
