"""Every example ends as its file says, and leaves nothing behind."""

import pytest

from testbed.appliedexamples import AppliedExamples
from testbed.demo.demo import read_examples
from testbed.eventually import eventually
from testbed.example import Example
from testbed.installation import Installation
from tests.e2e.tenant import PATIENCE, Tenant


@pytest.mark.parametrize("example", read_examples(), ids=lambda each: each.name)
async def test_an_example_reaches_its_expected_end_and_leaves_nothing(
    installation: Installation, team: Tenant, example: Example
) -> None:
    """Pods, devices, partitions in the hardware, injected environment and Events are as the file states."""
    applied = AppliedExamples(installation, [example], team.namespace)
    await applied.apply()

    async def look() -> list[str]:
        return example.differences(await applied.view())

    differences = await eventually(look, lambda found: not found, within=PATIENCE)
    assert differences == []

    await applied.delete()
    # A namespace goes in rounds, seconds apart, the later the slower the end of what is in it.
    assert await eventually(applied.left, lambda names: not names, within=2 * PATIENCE) == []
