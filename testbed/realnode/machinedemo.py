"""The demo of a real node with this machine's GPUs: pods compute on what their claims were given, and on nothing else.

In: a console. Out: what the pods found, printed; whether everything was as expected. No GPU is cut or configured.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from rich.console import Console
from rich.table import Table

from testbed.api import Json
from testbed.binaries import Binaries
from testbed.errors import TestbedError
from testbed.eventually import eventually
from testbed.realnode.faults import DRIVER_USER, PAUSED, SICK
from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.machinecards import computing
from testbed.realnode.nodedemo import NodeDemo
from testbed.realnode.workload import MANAGED, DeviceRequest, Workload, gpu

_ANY = DeviceRequest("GPU", "gpu.apportion.dev", "true")
_ILLEGAL_ADDRESS = "700"
"""CUDA_ERROR_ILLEGAL_ADDRESS."""
_SEEN_SECONDS = 10.0
"""Longer than the agent needs to see an error (it looks every two seconds) and to publish it."""
_PATIENCE_SECONDS = 90.0
_HELD = "apportion.dev/held"
_DRIVER_FILES = "/dev/nvidia"


@dataclass(frozen=True, slots=True)
class Computed:
    """What a pod found."""

    device: str
    uuids: frozenset[str]
    """Of the GPUs on which it computed."""
    errors: tuple[str, ...]
    allocated: float
    """Seconds from making the pod to its claim's allocation."""
    done: float
    """Seconds from the allocation until the GPU's memory had been written and read."""


class MachineDemo(NodeDemo):
    """One run of the demo."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._rows: list[tuple[str, Computed]] = []

    def _installation(self, binaries: Binaries) -> RealNodeInstallation:
        return RealNodeInstallation(machine_cards=True, binaries=binaries)

    async def _show(self, installation: RealNodeInstallation) -> bool:
        gpus = await _gpus(installation)
        if not gpus:
            self._console.print("[yellow]no real GPU:[/] the agent finds none on this machine")
            return False
        self._console.print(f"  published: {', '.join(sorted(gpus))}", highlight=False)
        namespace = await installation.cluster.make_namespace("team", MANAGED)
        work = Workload(installation.cluster, installation.node, namespace)
        async with self._step("a pod without a claim finds no GPU"):
            await self._without_claim(work)
        names = [f"computes-{number}" for number in range(len(gpus))]
        async with self._step(f"{len(names)} pods compute, each on the GPU of its claim"):
            for name in names:
                self._check(name, await self._compute(work, name), gpus)
        async with self._step("one pod more waits, and has the GPU of the first that goes"):
            await self._begin(work, "waits")
            await eventually(lambda: work.events("waits"), bool)
            await work.delete(names[0])
            self._check("waits", await self._computed(work, "waits", time.monotonic()), gpus)
        async with self._step("an agent that is killed and comes back finds the pods as they were"):
            await installation.agents[0].kill()
            await installation.agents.pop().stop()
            await installation.agent()
            await work.delete("waits")
            self._check("after-kill", await self._compute(work, "after-kill"), gpus)
            await work.delete("after-kill")
        async with self._step(
            "a program's own error (XID) is not the GPU's: its taints stay, and the next pod computes"
        ):
            taints = {device: await installation.taints(device) for device in gpus}
            found = await self._compute(work, "faulty", "fault")
            if not any(_ILLEGAL_ADDRESS in error for error in found.errors):
                raise TestbedError(f"the faulty program was not stopped: {found}")
            await self._keeps_taints(installation, taints)
            await work.delete("faulty")
            self._check("after-fault", await self._compute(work, "after-fault"), gpus)
            await work.delete("after-fault")
        async with self._step(
            "a program whose pod was deleted by force keeps its GPU until it has ended, and the next pod waits"
        ):
            await self._orphan(installation, work, gpus)
        async with self._step("while the driver is to be exchanged the agent has none of its files open"):
            await self._pause(installation, gpus)
            self._check("after-pause", await self._compute(work, "after-pause"), gpus)
            await work.delete("after-pause")
        async with self._step("the node's power is cut: its pod comes back, and computes"):
            await self._power_cut(installation, work, gpus)
        async with self._step("everything is deleted, and nothing is left"):
            await work.empty()
            await installation.nothing_left(warm=True)
        self._print()
        return True

    async def _without_claim(self, work: Workload) -> None:
        container, volumes = computing()
        await work.create_without("none", container, volumes)
        lines = await work.printed(await work.pod("none"))
        if any(line.startswith("gpu ") for line in lines):
            raise TestbedError(f"a pod without a claim computes on a GPU: {lines}")
        await work.empty()

    async def _orphan(
        self, installation: RealNodeInstallation, work: Workload, gpus: Mapping[str, str]
    ) -> None:
        seen = await self._compute(work, "orphan")
        programs = installation.node.processes()
        installation.node.kubelet.suspend()
        try:
            await work.delete_by_force("orphan")
            await eventually(
                lambda: installation.taints(seen.device), lambda keys: _HELD in (keys or ()), within=40
            )
            if installation.node.processes() != programs:
                raise TestbedError("the program of the pod that was deleted by force has ended by itself")
            wanted = gpu(gpus[seen.device])
            await self._begin(work, "next", wanted=wanted)
            await eventually(lambda: work.events("next"), bool)
        finally:
            installation.node.kubelet.resume()
        self._check("next", await self._computed(work, "next", time.monotonic()), gpus)
        await work.empty()

    async def _pause(self, installation: RealNodeInstallation, gpus: Mapping[str, str]) -> None:
        agent = installation.agents.pop()
        if not agent.open_files(_DRIVER_FILES):
            raise TestbedError("the agent has no file of the driver open although it serves GPUs")
        await installation.label_node(DRIVER_USER, PAUSED)
        try:
            for device in gpus:
                await eventually(
                    partial(installation.taints, device), lambda keys: SICK in (keys or ()), within=40
                )
            if found := agent.open_files(_DRIVER_FILES):
                raise TestbedError(f"the agent has let go of the driver, and has open {found}")
        finally:
            await installation.label_node(DRIVER_USER, "true")
        await agent.ended()
        await installation.agent()

    async def _power_cut(
        self, installation: RealNodeInstallation, work: Workload, gpus: Mapping[str, str]
    ) -> None:
        await self._begin(work, "booted", restart="Always")
        self._check("booted", await self._computed(work, "booted", time.monotonic()), gpus)
        await installation.power_cut()
        await installation.power_on()
        pod = await eventually(lambda: work.pod("booted"), _restarted, within=_PATIENCE_SECONDS)
        began = time.monotonic()
        await eventually(
            lambda: _printed(installation, pod),
            lambda lines: lines.count("ready") > 1,
            within=_PATIENCE_SECONDS,
        )
        self._check("booted", await self._computed(work, "booted", began), gpus)

    async def _begin(
        self,
        work: Workload,
        name: str,
        *words: str,
        restart: str = "Never",
        wanted: DeviceRequest = _ANY,
    ) -> None:
        container, volumes = computing(*words)
        await work.create(name, wanted, restart=restart, container=container, volumes=volumes)

    async def _compute(self, work: Workload, name: str, *words: str) -> Computed:
        began = time.monotonic()
        await self._begin(work, name, *words)
        return await self._computed(work, name, began)

    async def _computed(self, work: Workload, name: str, began: float) -> Computed:
        claim = await eventually(
            lambda: work.claim(name),
            lambda found: "allocation" in found.get("status", {}),
            within=_PATIENCE_SECONDS,
        )
        allocated = time.monotonic()
        lines = await work.printed(await work.pod(name))
        done = time.monotonic()
        [result] = claim["status"]["allocation"]["devices"]["results"]
        return Computed(
            result["device"],
            frozenset(line.split()[1] for line in lines if line.startswith("gpu ")),
            tuple(line for line in lines if line.startswith("error ")),
            allocated - began,
            done - allocated,
        )

    def _check(self, name: str, found: Computed, gpus: Mapping[str, str]) -> None:
        if found.errors or found.uuids != {gpus[found.device]}:
            raise TestbedError(f"pod {name} was to compute on {gpus[found.device]} ({found.device}): {found}")
        self._rows.append((name, found))

    async def _keeps_taints(
        self, installation: RealNodeInstallation, before: Mapping[str, set[str] | None]
    ) -> None:
        end = time.monotonic() + _SEEN_SECONDS
        while time.monotonic() < end:
            now = {device: await installation.taints(device) for device in before}
            if now != before:
                raise TestbedError(f"the taints of the GPUs were {before}, and are {now}")

    def _print(self) -> None:
        table = Table("pod", "device", "made to allocated", "allocated to computed")
        for name, found in self._rows:
            table.add_row(name, found.device, f"{found.allocated:.2f} s", f"{found.done:.2f} s")
        self._console.print(table)


def _restarted(pod: Json) -> bool:
    return any(
        status["restartCount"] and "running" in status["state"]
        for status in pod["status"].get("containerStatuses", ())
    )


async def _printed(installation: RealNodeInstallation, pod: Json) -> list[str]:
    return installation.node.output(pod)


async def _gpus(installation: RealNodeInstallation) -> dict[str, str]:
    """Return the UUID of each whole GPU by its device's name."""

    def uuid(device: Json) -> str:
        return str(device.get("attributes", {}).get("uuid", {}).get("string", ""))

    return {
        device["name"]: uuid(device)
        for each in await installation.slices()
        for device in each["spec"].get("devices", ())
        if device.get("attributes", {}).get("type", {}).get("string") == "gpu"
    }
