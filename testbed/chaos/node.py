"""One node with fake hardware, an agent that tests start and kill, and the calls that kubelet makes to it.

In: a folder, fake hardware, a pool of agents. Out: agents started and killed, claims prepared, an observation of the node.
"""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from testbed.api import Api, Json
from testbed.chaos.agentpool import AgentPool, AgentProcess
from testbed.chaos.controldaemons import ControlDaemons
from testbed.chaos.fakehardware import FakeHardware
from testbed.chaos.invariants import CdiFile, Container, Observation
from testbed.chaos.objects import DRIVER, NodeObjects
from testbed.chaos.rail import Rail
from testbed.chaos.relay import TcpRelay
from testbed.kubelet.plugin import ClaimKey, Plugin, PluginError
from testbed.smalldisk import SmallDisk

_OPTIONS: Final = {
    "health_interval": 0.5,
    "held_interval": 0.5,
    "prepare_timeout": 2.0,
    "registration_patience": 0.0,
}
_GPU_FILE: Final = re.compile(r"/dev/nvidia[0-9]+")


class ChaosNode(NodeObjects):
    """A node by name. `containers` are those that its kubelet runs."""

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        api: Api,
        pool: AgentPool,
        hardware: FakeHardware,
        relay: TcpRelay,
        kubeconfig: Path,
        lose: str,
        patience: float,
    ) -> None:
        super().__init__(name, api, hardware, patience=patience)
        self.relay = relay
        self.containers: dict[str, Container] = {}
        """By claim UID."""
        self.foreign: set[str] = set()
        """UUIDs of partitions that the agent did not make."""
        self.cards: dict[str, str] = {}
        """UUID of each card, as published."""
        self.boot_number = 1
        self._pool = pool
        self.disk: SmallDisk | None = None
        """Where the journal is, if it is a disk of its own."""
        self.daemons: ControlDaemons | None = None
        """What sharing its cards takes, if they can be shared by programs of one claim."""
        self.rail: Rail | None = None
        """Its NIC with a network interface, if it has one."""
        self.folder = folder
        self.boot_id_file = folder / "boot"
        self.boot_id_file.write_text("boot 1")
        self.cdi = folder / "cdi"
        self._kubeconfig = kubeconfig
        self._lose = lose
        self._plugins: dict[str, Plugin] = {}
        """By driver."""
        self._stale: list[Plugin] = []
        self.agent: AgentProcess | None = None

    # The agent

    def start(self, kill_at: str = "", arguments: Sequence[str] = (), **options: Any) -> AgentProcess:
        """Start an agent; `kill_at` is the step at which it kills itself, `options` are fields of its options."""
        self.agent = self.start_second(kill_at, arguments, **options)
        return self.agent

    def start_second(self, kill_at: str = "", arguments: Sequence[str] = (), **options: Any) -> AgentProcess:
        """Start one more agent beside the one that kubelet talks to, as in a rolling update."""
        return self._pool.start(
            arguments=[
                *("--node-name", self.name, *self.hardware.arguments, "--kubeconfig", self._kubeconfig),
                *("--plugins-dir", self.folder / "p", "--registry-dir", self.folder / "r"),
                *("--cdi-dir", self.cdi, "--state-dir", self.folder / "state"),
                *("--run-dir", self.folder / "run"),
                *("--health-port", "0", "--log-format", "console", *arguments),
            ],
            environment={**self.hardware.environment, "NO_COLOR": "1"},
            options={
                **_OPTIONS,
                "boot_id": self.boot_id_file,
                **(self.rail.options if self.rail is not None else {}),
                **options,
            },
            log=self.folder / "agent.log",
            kill_at=kill_at,
            lose=self._lose,
        )

    async def kill(self) -> None:
        """SIGKILL the agent."""
        if self.agent is not None:
            await self.agent.kill()
        # Closing them here would cancel calls that still wait for an answer.
        self._stale += self._plugins.values()
        self._plugins.clear()

    async def close_connections(self) -> None:
        """Close the connections to agents that were killed. No call may be running."""
        while self._stale:
            await self._stale.pop().close()

    def reboot(self) -> None:
        """Reboot: no container, CDI file or partition is left. No agent may run."""
        self.boot_number += 1
        self.boot_id_file.write_text(f"boot {self.boot_number}")
        self.containers.clear()
        self.foreign.clear()
        self.hardware.reboot()
        for file in self.cdi.glob("*"):
            file.unlink()
        if self.rail is not None:
            self.rail.reboot()
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        if self.daemons is not None:
            self.daemons.reboot()

    def log_tail(self, lines: int = 15) -> str:
        """Return the end of the agent's log."""
        log = self.folder / "agent.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""

    # Kubelet

    async def prepare(
        self, claim: Json, device: str, card: str, *, opened: bool = False, sharing: str = ""
    ) -> Container:
        """Prepare a claim and start its container; as kubelet does, again and again until it succeeds.

        `opened`: a program in the container opens the partition, so that the driver reports it as in use. `sharing`: the strategy
        that its claim asks for.
        """
        uid = claim["metadata"]["uid"]

        async def ask() -> Container | None:
            boot = self.boot_number
            answer = (await (await self.connected_plugin()).prepare([_key(claim)]))[uid]
            if isinstance(answer, PluginError):
                raise answer
            if boot != self.boot_number:
                return None  # the node was rebooted meanwhile
            share = claim["status"]["allocation"]["devices"]["results"][0].get("shareID", "")
            uuid = self._injected_uuid(uid, device, share)
            container = Container(uid, device, card, uuid, share, sharing)
            self.containers[uid] = container
            if opened:
                self.hardware.set_in_use(container.uuid, used=True)
            return container

        return await self.retry(ask, f"prepare of {device} for claim {claim['metadata']['name']}")

    async def prepare_error(self, claim: Json, driver: str = DRIVER) -> str:
        """Prepare a claim once; returns the error's text, "" if there was none."""
        uid = claim["metadata"]["uid"]

        async def ask() -> str | None:
            answer = (await (await self.connected_plugin(driver)).prepare([_key(claim)]))[uid]
            return str(answer) if isinstance(answer, PluginError) else ""

        return await self.retry(ask, f"an answer for claim {claim['metadata']['name']}")

    async def unprepare(self, claim: Json, driver: str = DRIVER) -> None:
        """Stop a claim's container and unprepare it, again and again until it succeeds."""
        uid = claim["metadata"]["uid"]
        stopped = self.containers.pop(uid, None)

        async def ask() -> bool:
            error = (await (await self.connected_plugin(driver)).unprepare([_key(claim)]))[uid]
            if error is not None:
                raise error
            return True

        await self.retry(ask, f"unprepare of claim {claim['metadata']['name']}")
        if stopped is not None:
            # The driver notices after kubelet that a program has ended.
            self.hardware.set_in_use(stopped.uuid, used=False)

    async def connected_plugin(self, driver: str = DRIVER) -> Plugin:
        """Return the plugin that the running agent has registered for a driver. Raises PluginError."""
        agent = self.agent
        if agent is None or not agent.alive:
            raise PluginError("no agent runs")
        if driver not in self._plugins:
            plugin = await Plugin.register(self.folder / "r" / f"{driver}-reg.sock")
            if self.agent is not agent or driver in self._plugins:
                await plugin.close()
                raise PluginError("the agent died meanwhile")
            self._plugins[driver] = plugin
        return self._plugins[driver]

    def _injected_uuid(self, uid: str, device: str, share: str) -> str:
        """Return the UUID that a container of this claim gets injected."""
        spec = json.loads((self.cdi / f"{DRIVER}_{uid}.json").read_text())
        name = f"{uid}-{device}-{share}" if share else f"{uid}-{device}"
        edits = next(row["containerEdits"] for row in spec["devices"] if row["name"] == name)
        return next(str(word).split("=")[1] for word in edits["env"] if word.startswith("APPORTION_R0_UUID="))

    # Observation

    def observe(self, objects: tuple[Mapping[str, Any], ...] = ()) -> Observation:
        """Return the state of the node now; `objects` are its Partition objects."""
        files = sorted(self.cdi.glob("*")) if self.cdi.is_dir() else []
        return Observation(
            live=self.hardware.partitions(),
            whole=frozenset(card for card in self.cards if self.hardware.whole(card)),
            cards=self.cards,
            cdi_files=tuple(found for file in files if (found := _cdi_file(file)) is not None),
            stray_files=tuple(file.name for file in files if file.suffix != ".json"),
            containers=tuple(self.containers.values()),
            foreign=frozenset(self.foreign),
            objects=objects,
            minors=self.hardware.minors(),
            setups=self.daemons.observe() if self.daemons is not None else {},
            daemon_folders=self.daemons.folders() if self.daemons is not None else (),
            interface=self.rail.observe() if self.rail is not None else None,
        )

    async def wait_serving(self) -> None:
        """Wait until the running agent answers kubelet."""

        async def ask() -> bool:
            return bool(await self.connected_plugin())

        await self.retry(ask, "the agent's start")

    async def wait_published(self) -> None:
        """Wait for the slices and read the cards' UUIDs from them."""

        async def ask() -> dict[str, str] | None:
            items, _ = await self.api.items(
                "/apis/resource.k8s.io/v1/resourceslices", fieldSelector=f"spec.nodeName={self.name}"
            )
            devices = [device for item in items for device in item["spec"].get("devices") or ()]
            return {
                device["name"]: device["attributes"]["uuid"]["string"]
                for device in devices
                if device["attributes"]["type"]["string"] == "gpu"
            } or None

        self.cards = await self.retry(ask, "publishing")


def _cdi_file(file: Path) -> CdiFile | None:
    if file.suffix != ".json":
        return None
    try:
        spec = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    driver, _, claim = file.stem.partition("_")
    if driver != DRIVER:
        return CdiFile(file.name, claim, frozenset())
    edits = [device["containerEdits"] for device in spec["devices"]]
    pairs = [
        (word.split("=")[1], one.get("deviceNodes", ()))
        for one in edits
        for word in one["env"]
        if word.startswith("APPORTION_R0_UUID=")
    ]
    minors = tuple(
        (uuid, int(node["minor"]))
        for uuid, nodes in pairs
        for node in nodes
        if _GPU_FILE.fullmatch(node["path"])
    )
    uuids = frozenset(uuid for uuid, _ in pairs)
    shared = any(word.startswith("APPORTION_R0_SHARE=") for one in edits for word in one["env"])
    return CdiFile(file.name, claim, uuids, minors, uuids if shared else frozenset())


def _key(claim: Json) -> ClaimKey:
    meta = claim["metadata"]
    return ClaimKey(meta["namespace"], meta["name"], meta["uid"])
