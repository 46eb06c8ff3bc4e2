"""The program of `make real-node ARGS=--machine-cards`: without a claim it finds no GPU, and says so."""

from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.machinecards import computing
from testbed.realnode.workload import Workload


async def test_a_pod_without_a_claim_finds_no_gpu(installation: RealNodeInstallation, work: Workload) -> None:
    """On a machine with GPUs, too: device files come with a claim only."""
    container, volumes = computing()
    await work.create_without("none", container, volumes)
    lines = await work.printed(await work.pod("none"))
    assert [line.split()[0] for line in lines] == ["error", "ready"]
    assert not installation.cdi()
