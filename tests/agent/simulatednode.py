"""A simulated node on a real control plane: its Node object, its agent, and a hand that plays kubelet and operator."""

import asyncio
import json
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from apportion.agent.agent import run_agent
from apportion.agent.devices.simulated.state import StateFile
from apportion.api.contract import AGENT_FINALIZER, COUNTER_SET_SUFFIX
from testbed import installation
from testbed.api import Api, Json
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from tests.agent.forkservers import ForkServers
from tests.agent.kubeletcalls import KubeletCalls
from tests.agent.places import GPU, NPU, RDMA, options_below

PARTITIONS = "/apis/apportion.dev/v1alpha1/partitions"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


class SimulatedNode(KubeletCalls):
    """One node. `agent` runs its agent in this process; the files stay from one agent to the next."""

    def __init__(
        self,
        cluster: ControlPlane,
        name: str,
        folder: Path,
        simulation: Mapping[str, Any],
        kubeconfig: Path | None = None,
        forks: ForkServers | None = None,
    ) -> None:
        self.api: Api = cluster.api
        self.forks = forks
        super().__init__(folder)
        self.name = name
        simulation_file = folder / "node.yaml"
        simulation_file.write_text(yaml.safe_dump(dict(simulation)), encoding="utf-8")
        (folder / "boot").write_text("first boot", encoding="utf-8")
        self.options = replace(
            options_below(folder),
            node=name,
            kubeconfig=kubeconfig or cluster.kubeconfig,
            health_interval=0.1,
            held_interval=0.1,
            prepare_timeout=30,
        )

    @asynccontextmanager
    async def agent(self, **changes: Any) -> AsyncIterator[None]:
        """Run the agent until the block ends, and wait until it serves the drivers of its cards."""
        stop = asyncio.Event()
        task = asyncio.create_task(run_agent(replace(self.options, **changes), stop))
        try:
            registry = changes.get("registry_dir", self.folder / "r")
            suffix = f"-{changes['instance']}" if "instance" in changes else ""
            # The agent serves one driver after the other.
            while not all((registry / f"{each}{suffix}-reg.sock").exists() for each in self.drivers()):
                if task.done():
                    await task
                await asyncio.sleep(0.02)
            yield
        finally:
            stop.set()
            await task

    def drivers(self) -> list[str]:
        """Return the drivers that this node's cards need."""
        simulation = yaml.safe_load((self.folder / "node.yaml").read_text())
        names = [card["model"] for card in simulation.get("cards", ())]
        found = [GPU] if any(name[0] in "AH" for name in names) else []
        found += [NPU] if any(name[0] in "39" for name in names) else []
        return found + ([RDMA] if simulation.get("nics") else [])

    # --- what the hardware and the runtime see -------------------------------------------------------------

    def hardware(self) -> list[Json]:
        """Return the partitions that exist on the simulated hardware."""
        state = json.loads((self.folder / "node.yaml.state.json").read_text())
        found: list[Json] = state["partitions"]
        return found

    def switchboard(self) -> AbstractContextManager[Json]:
        """Change the state of the simulated hardware while the agent runs."""
        return StateFile(self.folder / "node.yaml.state.json").changing()

    def cdi(self) -> dict[str, Json]:
        """Return the CDI files by name, as a container runtime reads them: not those that are being written."""
        found: dict[str, Json] = {}
        for path in (self.folder / "cdi").glob("*.json"):
            # Listed and removed meanwhile.
            with suppress(FileNotFoundError):
                found[path.name] = json.loads(path.read_text())
        return found

    # --- what the operator does ----------------------------------------------------------------------------

    async def partition(
        self, device: str, profile: str, *, holder: Json | None = None, driver: str = GPU, **spec: Any
    ) -> Json:
        """Make a Partition object as the operator would."""
        card = "-".join(device.split("-")[:2])
        body = {
            "apiVersion": "apportion.dev/v1alpha1",
            "kind": "Partition",
            "metadata": {"name": f"{self.name}-{device}", "finalizers": [AGENT_FINALIZER]},
            "spec": {
                "nodeName": self.name,
                "driver": driver,
                "pool": self.name,
                "device": device,
                "parent": card,
                "profile": profile,
                "origin": "Claim",
                **({"holder": holder} if holder else {}),
                **spec,
            },
        }
        return await self.api.create(PARTITIONS, body, fieldValidation="Strict")

    async def see(self, device: str) -> Json:
        """Return the Partition object of a device, {} when there is none."""
        found, _ = await self.api.items(PARTITIONS, fieldSelector=f"spec.nodeName={self.name}")
        return next((item for item in found if item["spec"]["device"] == device), {})

    async def phase(self, device: str, phase: str, *, within: float = 25) -> Json:
        """Wait until the Partition of a device is in a phase, and return it."""
        return await eventually(
            lambda: self.see(device),
            lambda item: item.get("status", {}).get("phase") == phase,
            within=within,
        )

    async def remove(self, device: str) -> None:
        """Delete the Partition object of a device."""
        await self.api.delete(f"{PARTITIONS}/{self.name}-{device}")

    async def claim(
        self, namespace: str, name: str, *devices: str, driver: str = GPU, config: Sequence[Json] = ()
    ) -> Json:
        """Make a claim that is allocated to devices of this node and reserved."""
        made = await self.ask(namespace, name, *[1] * len(devices))
        return await self.allocate(made, *devices, driver=driver, config=config)

    async def ask(self, namespace: str, name: str, *counts: int) -> Json:
        """Make a claim with a request for each of these counts of devices: r0, r1 and so on."""
        path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
        exactly = [{"deviceClassName": "any", "count": count} for count in counts]
        requests = [{"name": f"r{n}", "exactly": each} for n, each in enumerate(exactly)]
        spec = {"devices": {"requests": requests}}
        return await self.api.create(path, {"metadata": {"name": name}, "spec": spec})

    async def share(
        self,
        namespace: str,
        name: str,
        device: str | tuple[str, ...],
        memory: str,
        config: Sequence[Json] = (),
        *,
        cores: int = 0,
    ) -> Json:
        """Make a claim that is allocated to a part of a device, or of each, as the operator would, and reserved; `cores` in percent."""
        devices = (device,) if isinstance(device, str) else device
        made = await self.ask(namespace, name, *[1] * len(devices))
        consumed = {"memory": memory, "shares": "1", **({"cores": str(cores)} if cores else {})}
        mark = str(uuid.uuid4())
        return await self.allocate(made, *devices, config=config, shareID=mark, consumedCapacity=consumed)

    async def allocate(
        self, claim: Json, *devices: str, driver: str = GPU, config: Sequence[Json] = (), **result: Any
    ) -> Json:
        """Write an allocation and a reservation that controller-manager leaves alone (no pod); `result` goes to every device."""
        results = [
            {"request": f"r{n}", "driver": driver, "pool": self.name, "device": device, **result}
            for n, device in enumerate(devices)
        ]
        selector = {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [self.name]}]}
            ]
        }
        user = {"apiGroup": "example.com", "resource": "tests", "name": "test", "uid": "test"}
        status = {
            "allocation": {"devices": {"results": results, "config": [*config]}, "nodeSelector": selector},
            "reservedFor": [user],
        }
        return await self.api.patch(_status(claim), {"status": status})

    async def reserve(self, claim: Json, pod: Json) -> None:
        """Reserve the claim for a pod, as the scheduler does."""
        user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        await self.api.patch(_status(claim), {"status": {"reservedFor": [user]}})

    async def deallocate(self, claim: Json) -> None:
        """Take allocation and reservation away, as controller-manager does when the last pod is gone."""
        await self.api.patch(_status(claim), {"status": {"allocation": None, "reservedFor": None}})

    # --- what the cluster sees -----------------------------------------------------------------------------

    async def slices(self, driver: str = "") -> list[Json]:
        """Return the node's slices, of one driver or of all."""
        found, _ = await self.api.items(SLICES, fieldSelector=f"spec.nodeName={self.name}")
        return [item for item in found if driver in ("", item["spec"]["driver"])]

    async def devices(self, driver: str = GPU) -> dict[str, Json]:
        """Return the devices by name; a pool whose newest generation is being written is waited for."""
        specs = await eventually(lambda: self._newest(driver), lambda found: found is not None)
        return {device["name"]: device for spec in specs or () for device in spec.get("devices", ())}

    async def _newest(self, driver: str) -> list[Json] | None:
        """Return the slices' specs of the pools' newest generations, None while one of them is not whole."""
        specs = sorted(
            (s["spec"] for s in await self.slices(driver)), key=lambda spec: spec["pool"]["generation"]
        )
        newest = {spec["pool"]["name"]: spec["pool"] for spec in specs}
        pools = [spec["pool"] for spec in specs]
        current = [spec for spec in specs if spec["pool"] == newest[spec["pool"]["name"]]]
        whole = [spec for spec in current if pools.count(spec["pool"]) == spec["pool"]["resourceSliceCount"]]
        return whole if len(whole) == len(current) else None

    async def events(self, reason: str = "", about: str = "") -> list[Json]:
        """Return the Events about this node, or about another object of the cluster."""
        name = about or self.name
        found, _ = await self.api.items("/api/v1/events", fieldSelector=f"involvedObject.name={name}")
        return [event for event in found if reason in ("", event["reason"])]

    async def counters(self, card: str, driver: str = GPU) -> dict[str, str]:
        """Return what a card's counter set says."""
        for item in await self.slices(driver):
            for row in item["spec"].get("sharedCounters", ()):
                if row["name"] == f"{card}{COUNTER_SET_SUFFIX}":
                    return {name: value["value"] for name, value in row["counters"].items()}
        return {}


async def install(cluster: ControlPlane) -> None:
    """Install the production manifests: kinds, rights, and the policies that bind an agent to its node."""
    await installation.install(cluster)
    # Nothing here runs containers; their pods would only be in the way.
    workloads = ("deployment/apportion-operator", "daemonset/apportion-agent")
    await cluster.kubectl("delete", "--namespace=apportion-system", "--ignore-not-found", *workloads)


@asynccontextmanager
async def simulated_node(
    cluster: ControlPlane, forks: ForkServers | None = None, **simulation: Any
) -> AsyncIterator[SimulatedNode]:
    """Make a node; afterwards nothing of it is left in the cluster. `forks`: where agents come from that are processes of their own."""
    made = await cluster.api.create("/api/v1/nodes", {"metadata": {"generateName": "sim-"}})
    # A short path: unix sockets lie below it.
    folder = Path(tempfile.mkdtemp(prefix="a-"))
    name = made["metadata"]["name"]
    # The agent's own rights and nothing more, with a token that names its node.
    rights = await cluster.service_account_kubeconfig("apportion-system", "apportion-agent", node=name)
    node = SimulatedNode(cluster, name, folder, simulation, rights, forks)
    try:
        yield node
    finally:
        found, _ = await cluster.api.items(PARTITIONS, fieldSelector=f"spec.nodeName={node.name}")
        for item in found:
            path = f"{PARTITIONS}/{item['metadata']['name']}"
            await cluster.api.delete(path)
            if item["metadata"].get("finalizers"):
                await cluster.api.patch(path, {"metadata": {"finalizers": []}})
        await cluster.api.delete(f"/api/v1/nodes/{node.name}")
        for item in await node.slices():
            await cluster.api.delete(f"{SLICES}/{item['metadata']['name']}")
        shutil.rmtree(folder)


MakeNode = Callable[..., AbstractAsyncContextManager[SimulatedNode]]
"""The fixture `make_node`: keyword arguments are the fields of the simulation file."""


def _status(claim: Json) -> str:
    """Return the address of a claim's status."""
    meta = claim["metadata"]
    return f"/apis/resource.k8s.io/v1/namespaces/{meta['namespace']}/resourceclaims/{meta['name']}/status"


def holder(claim: Json) -> Json:
    """Return a claim as the holder of a Partition."""
    meta = claim["metadata"]
    return {
        "kind": "ResourceClaim",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
    }
