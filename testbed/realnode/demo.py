"""The demo of a real node: a pod for each kind of partition, cold and warm, and nothing left after it.

In: a console. Out: what the containers saw and how long they took, printed; whether everything was as expected.
"""

from rich.table import Table

from testbed.binaries import Binaries
from testbed.errors import TestbedError
from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.nodedemo import NodeDemo
from testbed.realnode.trials import TRIALS
from testbed.realnode.workload import MANAGED, DeviceRequest, RunningPod, Workload, mig, vnpu

REQUESTS = (mig("1g.10gb"), vnpu("vir05_1c_8g"))
_OWN = ("APPORTION_", "NVIDIA_", "ASCEND_")


class RealNodeDemo(NodeDemo):
    """One run of the demo."""

    def _installation(self, binaries: Binaries) -> RealNodeInstallation:
        return RealNodeInstallation(gpus=("H100-80GB",) * 2, binaries=binaries, small_disk=True)

    async def _show(self, installation: RealNodeInstallation) -> bool:
        namespace = await installation.cluster.make_namespace("team", MANAGED)
        work = Workload(installation.cluster, installation.node, namespace)
        times = Table("pod", "device", "made to allocated", "allocated to running")
        cold: dict[str, RunningPod] = {}
        for wanted in REQUESTS:
            async with self._step(f"{wanted.title}, cold: run, delete, look for remains"):
                cold[wanted.name] = await work.run(f"{wanted.name}-cold", wanted)
                await work.delete(f"{wanted.name}-cold")
                await installation.nothing_left(warm=True)
            self._print(wanted, cold[wanted.name])
        for wanted in REQUESTS:
            async with self._step(f"{wanted.title}, warm: run"):
                warm = await work.run(f"{wanted.name}-warm", wanted)
            for state, seen in (("cold", cold[wanted.name]), ("warm", warm)):
                times.add_row(
                    f"{wanted.name}-{state}", seen.device, f"{seen.allocated:.2f} s", f"{seen.started:.2f} s"
                )
        self._console.print(times)
        for wanted in REQUESTS:
            # Trials ask for whole GPUs, too.
            await work.delete(f"{wanted.name}-warm")
        for title, trial in TRIALS.items():
            async with self._step(f"{title}: pods run all the same, each with its own device"):
                await trial(installation, work)
        async with self._step("keep nothing warm: nothing at all is left"):
            await installation.keep_nothing_warm()
            await installation.nothing_left(warm=False)
        return True

    def _print(self, wanted: DeviceRequest, seen: RunningPod) -> None:
        if seen.environment.get("APPORTION_PART") != seen.device:
            raise TestbedError(
                f"the container of {wanted.title} was not given {seen.device}: {seen.environment}"
            )
        self._console.print(f"  what the container of {wanted.title} saw:", highlight=False)
        for name, value in sorted(seen.environment.items()):
            if name.startswith(_OWN):
                self._console.print(f"    {name}={value}", highlight=False)
        for path, number in sorted(seen.devices.items()):
            if not number.startswith(("1:", "5:")):  # what every container has
                self._console.print(f"    {path} ({number})", highlight=False)
