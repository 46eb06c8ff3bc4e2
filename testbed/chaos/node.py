"""One node in the storm: fake hardware, an agent that comes and goes, and a hand that plays kubelet.

In: a folder, fake hardware, a nursery. Out: lives and deaths of the agent, kubelet's calls, and everything that can be seen.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from testbed.api import Api, Json
from testbed.chaos.brood import Agent, Brood
from testbed.chaos.ground import Ground
from testbed.chaos.judge import Container, Injection, Sight
from testbed.chaos.objects import DRIVER, Objects
from testbed.chaos.wire import Wire
from testbed.plugin import ClaimKey, Plugin, PluginError

_OPTIONS: Final = {
    "health_interval": 0.5,
    "held_interval": 0.5,
    "prepare_timeout": 2.0,
}


class Node(Objects):
    """A node by name. What its kubelet believes is in `containers`."""

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        api: Api,
        brood: Brood,
        ground: Ground,
        wire: Wire,
        kubeconfig: Path,
        lose: str,
        patience: float,
    ) -> None:
        super().__init__(name, api, ground, patience=patience)
        self.wire = wire
        self.containers: dict[str, Container] = {}
        """By claim UID."""
        self.strangers: set[str] = set()
        self.cards: dict[str, str] = {}
        """UUID of each card, as published."""
        self.boots = 1
        self._brood = brood
        self.folder = folder
        self.boot = folder / "boot"
        self.boot.write_text("boot 1")
        self.cdi = folder / "cdi"
        self._kubeconfig = kubeconfig
        self._lose = lose
        self._plugin: Plugin | None = None
        self._stale: list[Plugin] = []
        self.agent: Agent | None = None

    # --- the agent's lives ---------------------------------------------------------------------------------------

    def start(self, kill_at: str = "", arguments: Sequence[str] = (), **options: Any) -> Agent:
        """Start an agent; `kill_at` is the step at which it ends itself, `options` are fields of its options."""
        self.agent = self.another(kill_at, arguments, **options)
        return self.agent

    def another(self, kill_at: str = "", arguments: Sequence[str] = (), **options: Any) -> Agent:
        """Start one more agent beside the one that kubelet talks to, as in a rolling update."""
        return self._brood.bear(
            arguments=[
                *("--node-name", self.name, *self.ground.arguments, "--kubeconfig", self._kubeconfig),
                *("--plugins-dir", self.folder / "p", "--registry-dir", self.folder / "r"),
                *("--cdi-dir", self.cdi, "--state-dir", self.folder / "state"),
                *("--health-port", "0", "--log-format", "console", *arguments),
            ],
            environment={**self.ground.environment, "NO_COLOR": "1"},
            options={**_OPTIONS, "boot_id": self.boot, **options},
            log=self.folder / "agent.log",
            kill_at=kill_at,
            lose=self._lose,
        )

    async def kill(self) -> None:
        """SIGKILL the agent."""
        if self.agent is not None:
            await self.agent.kill()
        if self._plugin is not None:
            # To close it would cancel those who still wait for an answer of the dead.
            self._stale.append(self._plugin)
            self._plugin = None

    async def hang_up(self) -> None:
        """Close the connections to agents that are dead. No call may be under way."""
        while self._stale:
            await self._stale.pop().close()

    def reboot(self) -> None:
        """Reboot: no container, CDI file or partition is left. The agent must be dead."""
        self.boots += 1
        self.boot.write_text(f"boot {self.boots}")
        self.containers.clear()
        self.strangers.clear()
        self.ground.reboot()
        for file in self.cdi.glob("*"):
            file.unlink()

    def last_words(self, lines: int = 15) -> str:
        """Return the end of the agent's log."""
        log = self.folder / "agent.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""

    # --- what kubelet does ---------------------------------------------------------------------------------------

    async def prepare(self, claim: Json, device: str, card: str, *, opened: bool = False) -> Container:
        """Prepare a claim and start its container; kubelet's way, again and again until it works.

        `opened`: a program in it opens the partition. Without it the driver does not know that it is in use.
        """
        uid = claim["metadata"]["uid"]

        async def ask() -> Container | None:
            boot = self.boots
            answer = (await (await self.served()).prepare([_key(claim)]))[uid]
            if isinstance(answer, PluginError):
                raise answer
            if boot != self.boots:
                return None  # that answer was another life's
            container = Container(uid, device, card, self._given(uid, device))
            self.containers[uid] = container
            if opened:
                self.ground.use(container.uuid, used=True)
            return container

        return await self.insist(ask, f"prepare of {device} for claim {claim['metadata']['name']}")

    async def refusal(self, claim: Json) -> str:
        """Prepare a claim that must be refused; returns the refusal, "" if it was none."""
        uid = claim["metadata"]["uid"]

        async def ask() -> str | None:
            answer = (await (await self.served()).prepare([_key(claim)]))[uid]
            return str(answer) if isinstance(answer, PluginError) else ""

        return await self.insist(ask, f"an answer for claim {claim['metadata']['name']}")

    async def unprepare(self, claim: Json) -> None:
        """Stop a claim's container and unprepare it, again and again until it works."""
        uid = claim["metadata"]["uid"]
        stopped = self.containers.pop(uid, None)

        async def ask() -> bool:
            error = (await (await self.served()).unprepare([_key(claim)]))[uid]
            if error is not None:
                raise error
            return True

        await self.insist(ask, f"unprepare of claim {claim['metadata']['name']}")
        if stopped is not None:
            # The driver learns a moment later than kubelet that a program has ended.
            self.ground.use(stopped.uuid, used=False)

    async def served(self) -> Plugin:
        """Return the plugin as registered by the agent that lives now. Raises PluginError."""
        agent = self.agent
        if agent is None or not agent.alive:
            raise PluginError("no agent runs")
        if self._plugin is None:
            plugin = await Plugin.register(self.folder / "r" / f"{DRIVER}-reg.sock")
            if self.agent is not agent or self._plugin is not None:
                await plugin.close()
                raise PluginError("the agent died meanwhile")
            self._plugin = plugin
        return self._plugin

    def _given(self, uid: str, device: str) -> str:
        """Return the UUID that a container of this claim gets injected."""
        spec = json.loads((self.cdi / f"{DRIVER}_{uid}.json").read_text())
        edits = next(row["containerEdits"] for row in spec["devices"] if row["name"] == f"{uid}-{device}")
        return next(str(word).split("=")[1] for word in edits["env"] if word.startswith("APPORTION_R0_UUID="))

    # --- what everybody sees -------------------------------------------------------------------------------------

    def sight(self, partitions: tuple[Mapping[str, Any], ...] = ()) -> Sight:
        """Look at everything at one moment."""
        files = sorted(self.cdi.glob("*")) if self.cdi.is_dir() else []
        return Sight(
            cuts=self.ground.cuts(),
            whole=frozenset(card for card in self.cards if self.ground.whole(card)),
            cards=self.cards,
            injections=tuple(found for file in files if (found := _injection(file)) is not None),
            litter=tuple(file.name for file in files if file.suffix != ".json"),
            containers=tuple(self.containers.values()),
            strangers=frozenset(self.strangers),
            partitions=partitions,
        )

    async def serves(self) -> None:
        """Wait until the agent that lives now answers kubelet."""

        async def ask() -> bool:
            return bool(await self.served())

        await self.insist(ask, "the agent's start")

    async def learn_cards(self) -> None:
        """Wait for the slices and remember the cards' UUIDs."""

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

        self.cards = await self.insist(ask, "publishing")


def _injection(file: Path) -> Injection | None:
    if file.suffix != ".json":
        return None
    try:
        spec = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    uuids = {
        word.split("=")[1]
        for device in spec["devices"]
        for word in device["containerEdits"]["env"]
        if word.startswith("APPORTION_R0_UUID=")
    }
    return Injection(file.name, file.stem.removeprefix(f"{DRIVER}_"), frozenset(uuids))


def _key(claim: Json) -> ClaimKey:
    meta = claim["metadata"]
    return ClaimKey(meta["namespace"], meta["name"], meta["uid"])
