"""Two pods on one GPU at once, on a real kubelet and containerd."""

from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.sharedcards import shared_gpus
from testbed.realnode.workload import Workload, share

GIB = 2**30


async def test_two_pods_run_on_one_gpu_at_once_and_each_knows_its_part(
    installation: RealNodeInstallation, work: Workload
) -> None:
    """The same device files, different shares; kubelet takes both; nothing stays of either."""
    async with shared_gpus(installation, "TimeSlicing"):
        ten, twenty = await work.run("ten", share("10Gi")), await work.run("twenty", share("20Gi"))
        assert (ten.device, twenty.device) == ("gpu-0", "gpu-0")
        assert ten.devices == twenty.devices
        assert "/dev/nvidia0" in ten.devices
        shares = []
        for seen, gib in ((ten, 10), (twenty, 20)):
            (result,) = seen.claim["status"]["allocation"]["devices"]["results"]
            shares.append(result["shareID"])
            assert seen.environment["APPORTION_PART_SHARE"] == result["shareID"]
            assert seen.environment["APPORTION_PART_MEMORY"] == str(gib * GIB)
            (content,) = seen.metadata.values()
            assert result["shareID"] in content
        assert shares[0] != shares[1]
        assert (await work.pod("ten"))["status"]["phase"] == "Running"
        await work.delete("ten")
        assert (await work.pod("twenty"))["status"]["phase"] == "Running"
        assert len(installation.cdi()) == 1
        await work.delete("twenty")
        await installation.nothing_left(warm=True)
