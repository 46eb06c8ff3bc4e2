"""A pod whose containers share a GPU through MPS, on a real kubelet and containerd."""

import subprocess
from pathlib import Path

from testbed.api import Json
from testbed.eventually import eventually
from testbed.realnode.images import IMAGE
from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.mpshost import CONTROL, mps_host
from testbed.realnode.workload import Workload, gpu


def manifests(name: str, uuid: str) -> tuple[Json, Json]:
    """Return a claim with MPS, and a pod of two containers that use it."""
    wanted = gpu(uuid)
    exactly = {
        "deviceClassName": wanted.device_class,
        "selectors": [{"cel": {"expression": wanted.expression}}],
    }
    terms = {"defaultActiveThreadPercentage": 50, "defaultPinnedDeviceMemoryLimit": "10Gi"}
    body = {
        "apiVersion": "config.apportion.dev/v1alpha1",
        "kind": "GpuConfig",
        "sharing": {"strategy": "MPS", "mpsConfig": terms},
    }
    devices = {
        "requests": [{"name": "part", "exactly": exactly}],
        "config": [{"requests": ["part"], "opaque": {"driver": "gpu.apportion.dev", "parameters": body}}],
    }
    containers = [
        {
            "name": each,
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "resources": {"claims": [{"name": "part"}], "requests": {"cpu": "10m", "memory": "16Mi"}},
        }
        for each in ("main", "beside")
    ]
    spec = {
        "hostNetwork": True,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 5,
        "resourceClaims": [{"name": "part", "resourceClaimName": name}],
        "containers": containers,
    }
    return {"metadata": {"name": name}, "spec": {"devices": devices}}, {
        "metadata": {"name": name},
        "spec": spec,
    }


def pipe_folder(pid: int) -> Path:
    """Return where the container of a process finds its control daemon, as the host sees it."""
    return Path(f"/proc/{pid}/root/tmp/nvidia-mps")


def asked(pid: int, command: str, hardware: Path) -> str:
    """Ask the daemon through the folder that a container of process `pid` has."""
    done = subprocess.run(
        [hardware / "run" / CONTROL],
        env={"CUDA_MPS_PIPE_DIRECTORY": str(pipe_folder(pid))},
        input=f"{command}\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def having_the_folder(pids: set[int]) -> list[int]:
    """Return the processes whose containers have the daemon's folder."""
    return [pid for pid in pids if pipe_folder(pid).is_dir()]


def daemon_runs(hardware: Path) -> bool:
    """Say whether a process of a daemon is left."""
    found = subprocess.run(["pgrep", "-f", str(hardware / "run" / CONTROL)], check=False)
    return found.returncode == 0


async def test_two_containers_of_a_claim_share_its_daemon_and_nothing_stays_of_it(
    installation: RealNodeInstallation, work: Workload
) -> None:
    """Both find the daemon's folder and its limits; the agent is killed beside them, and the daemon stays the same."""
    hardware = installation.hardware
    state = hardware.nvml.read()
    uuid = state.gpu[0].uuid.decode()
    folder = installation.node.host.library("apportion") / "mps"
    async with mps_host(installation):
        claim, pod = manifests("mps", uuid)
        await installation.cluster.api.create(work._claims, claim)
        await installation.cluster.api.create(work._pods, pod)
        running = await work.running("mps")
        for name in ("main", "beside"):

            async def lines(container: str = name) -> list[str]:
                return installation.node.output(running, container)

            seen = await eventually(lines, lambda found: "ready" in found)
            assert "env CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps" in seen
        inside = having_the_folder(installation.node.processes())
        assert len(inside) == len(pod["spec"]["containers"])
        limits = "get_default_device_pinned_mem_limit 0"
        assert {asked(pid, limits, hardware.root) for pid in inside} == {"10240M"}
        assert hardware.nvml.shared(0)[0] == 3, "EXCLUSIVE_PROCESS"
        (pids,) = folder.glob("*/pipe/nvidia-cuda-mps-control.pid")
        before = pids.read_text()
        agent = installation.agents[0]
        await agent.kill()
        assert {asked(pid, limits, hardware.root) for pid in inside} == {"10240M"}
        await agent.start()
        assert pids.read_text() == before
        await work.delete("mps")
        await installation.nothing_left(warm=True)
        assert (hardware.nvml.shared(0), list(folder.iterdir())) == ((0, 0), [])
        assert not daemon_runs(hardware.root)
