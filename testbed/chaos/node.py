"""One node in the storm: fake hardware, an agent that comes and goes, and a hand that plays kubelet and operator.

The operator is played, not run: so every order of events can be forced, also those that the real one avoids (an object
deleted while its partition runs), and a run needs no scheduler.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from testbed.api import Api, Json
from testbed.chaos.brood import Agent, Brood
from testbed.chaos.ground import Ground
from testbed.chaos.judge import Container, Injection, Sight
from testbed.chaos.wire import Wire
from testbed.errors import ApiError, TestbedError
from testbed.plugin import ClaimKey, Plugin, PluginError

T = TypeVar("T")
DRIVER: Final = "gpu.apportion.dev"
PARTITIONS: Final = "/apis/apportion.dev/v1alpha1/partitions"
_CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
_LOOK: Final = 0.02
_OPTIONS: Final = {
    "health_interval": 0.5,
    "held_interval": 0.5,
    "prepare_patience": 2.0,
}


class StuckError(TestbedError):
    """Something does not come right, however long one waits."""


class Node:
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
        self.name = name
        self.ground = ground
        self.wire = wire
        self.containers: dict[str, Container] = {}
        """By claim UID."""
        self.strangers: set[str] = set()
        self.cards: dict[str, str] = {}
        """UUID of each card, as published."""
        self.boots = 1
        self._api = api
        self._brood = brood
        self._folder = folder
        self._boot = folder / "boot"
        self._boot.write_text("boot 1")
        self._cdi = folder / "cdi"
        self._kubeconfig = kubeconfig
        self._lose = lose
        self._patience = patience
        self._plugin: Plugin | None = None
        self._stale: list[Plugin] = []
        self.agent: Agent | None = None

    # --- the agent's lives ---------------------------------------------------------------------------------------

    def start(self, kill_at: str = "", skip: int = 0) -> Agent:
        """Start an agent; `kill_at` is the step at which it ends itself."""
        self.agent = self._brood.bear(
            arguments=[
                *("--node-name", self.name, *self.ground.arguments, "--kubeconfig", self._kubeconfig),
                *("--plugins-dir", self._folder / "p", "--registry-dir", self._folder / "r"),
                *("--cdi-dir", self._cdi, "--state-dir", self._folder / "state"),
                *("--health-port", "0", "--log-format", "console"),
            ],
            environment={**self.ground.environment, "NO_COLOR": "1"},
            options={**_OPTIONS, "boot_id": self._boot},
            log=self._folder / "agent.log",
            kill_at=kill_at,
            skip=skip,
            lose=self._lose,
        )
        return self.agent

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
        self._boot.write_text(f"boot {self.boots}")
        self.containers.clear()
        self.strangers.clear()
        self.ground.reboot()
        for file in self._cdi.glob("*"):
            file.unlink()

    def last_words(self, lines: int = 15) -> str:
        """Return the end of the agent's log."""
        log = self._folder / "agent.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""

    # --- what kubelet does ---------------------------------------------------------------------------------------

    async def insist(self, ask: Callable[[], Awaitable[T | None]], what: str) -> T:
        """Ask until there is an answer, whoever dies meanwhile. Raises StuckError."""
        end = time.monotonic() + self._patience
        why = "no answer"
        while time.monotonic() < end:
            try:
                answer = await ask()
                if answer is not None:
                    return answer
            except (PluginError, ApiError) as error:
                why = str(error)
            await asyncio.sleep(_LOOK)
        raise StuckError(f"{self.name}: {what} does not succeed: {why}")

    async def prepare(self, claim: Json, device: str, card: str) -> Container:
        """Prepare a claim and start its container; kubelet's way, again and again until it works."""
        uid = claim["metadata"]["uid"]

        async def ask() -> Container | None:
            boot = self.boots
            answer = (await (await self._served()).prepare([_key(claim)]))[uid]
            if isinstance(answer, PluginError):
                raise answer
            if boot != self.boots:
                return None  # that answer was another life's
            container = Container(uid, device, card, self._given(uid, device))
            self.containers[uid] = container
            return container

        return await self.insist(ask, f"prepare of {device} for claim {claim['metadata']['name']}")

    async def refusal(self, claim: Json) -> str:
        """Prepare a claim that must be refused; returns the refusal, "" if it was none."""
        uid = claim["metadata"]["uid"]

        async def ask() -> str | None:
            answer = (await (await self._served()).prepare([_key(claim)]))[uid]
            return str(answer) if isinstance(answer, PluginError) else ""

        return await self.insist(ask, f"an answer for claim {claim['metadata']['name']}")

    async def unprepare(self, claim: Json) -> None:
        """Stop a claim's container and unprepare it, again and again until it works."""
        uid = claim["metadata"]["uid"]
        self.containers.pop(uid, None)

        async def ask() -> bool:
            error = (await (await self._served()).unprepare([_key(claim)]))[uid]
            if error is not None:
                raise error
            return True

        await self.insist(ask, f"unprepare of claim {claim['metadata']['name']}")

    async def _served(self) -> Plugin:
        """Return the plugin as registered by the agent that lives now. Raises PluginError."""
        agent = self.agent
        if agent is None or not agent.alive:
            raise PluginError("no agent runs")
        if self._plugin is None:
            plugin = await Plugin.register(self._folder / "r" / f"{DRIVER}-reg.sock")
            if self.agent is not agent or self._plugin is not None:
                await plugin.close()
                raise PluginError("the agent died meanwhile")
            self._plugin = plugin
        return self._plugin

    def _given(self, uid: str, device: str) -> str:
        """Return the UUID that a container of this claim gets injected."""
        spec = json.loads((self._cdi / f"{DRIVER}_{uid}.json").read_text())
        edits = next(row["containerEdits"] for row in spec["devices"] if row["name"] == f"{uid}-{device}")
        return next(str(word).split("=")[1] for word in edits["env"] if word.startswith("APPORTION_R0_UUID="))

    # --- what the operator does ----------------------------------------------------------------------------------

    async def claim(self, name: str, device: str) -> Json:
        """Make a claim, allocated to a device and reserved."""
        requests = [{"name": "r0", "exactly": {"deviceClassName": "any"}}]
        made = await self._api.create(
            _CLAIMS,
            {"metadata": {"name": f"{self.name}-{name}"}, "spec": {"devices": {"requests": requests}}},
        )
        selector = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [self.name]}]}
        status = {
            "allocation": {
                "devices": {
                    "results": [{"request": "r0", "driver": DRIVER, "pool": self.name, "device": device}]
                },
                "nodeSelector": {"nodeSelectorTerms": [selector]},
            },
            "reservedFor": [
                {"apiGroup": "example.com", "resource": "tests", "name": "chaos", "uid": "chaos"}
            ],
        }
        path = f"{_CLAIMS}/{made['metadata']['name']}/status"
        return await self._api.patch(path, {"status": status})

    async def forget(self, claim: Json) -> None:
        """Deallocate a claim and delete it."""
        path = f"{_CLAIMS}/{claim['metadata']['name']}"
        await self._api.patch(f"{path}/status", {"status": {"allocation": None, "reservedFor": None}})
        await self._api.delete(path)

    async def wish(self, place: Any, claim: Json | None) -> None:
        """Make the Partition object of a place, for a claim or as a warm one."""
        spec = {
            "nodeName": self.name,
            "driver": DRIVER,
            "pool": self.name,
            "device": place.device,
            "parent": place.card,
            "profile": place.profile,
            "placement": {"start": place.start, "size": place.size},
            "origin": "Claim" if claim else "Warm",
            **({"holder": _holder(claim)} if claim else {}),
        }
        body = {
            "apiVersion": "apportion.dev/v1alpha1",
            "kind": "Partition",
            "metadata": {"name": self._partition(place), "finalizers": ["apportion.dev/agent"]},
            "spec": spec,
        }

        async def ask() -> Json:
            # One of the same name may be on its way out.
            return await self._api.create(PARTITIONS, body)

        await self.insist(ask, f"making the Partition of {place.device}")

    async def hold(self, place: Any, claim: Json | None) -> None:
        """Give a Partition another holder, or none."""
        path = f"{PARTITIONS}/{self._partition(place)}"
        await self._api.patch(path, {"spec": {"holder": _holder(claim) if claim else None}})

    async def drop(self, place: Any) -> None:
        """Delete a Partition object; the agent's finalizer keeps it until the hardware is gone."""
        await self._api.delete(f"{PARTITIONS}/{self._partition(place)}")

    async def lose(self, place: Any) -> None:
        """Let a Partition object vanish at once, as when etcd is restored from an old copy."""
        path = f"{PARTITIONS}/{self._partition(place)}"
        await self._api.patch(path, {"metadata": {"finalizers": []}})
        await self._api.delete(path)

    async def gone(self, place: Any) -> None:
        """Wait until a Partition object and its hardware are gone."""

        async def ask() -> bool | None:
            if any(
                (cut.card, cut.profile, cut.start) == (place.card, place.profile, place.start)
                for cut in self.ground.cuts()
            ):
                return None
            try:
                await self._api.get(f"{PARTITIONS}/{self._partition(place)}")
            except ApiError as error:
                if error.status == 404:
                    return True
                raise
            return None

        await self.insist(ask, f"removal of {place.device}")

    def _partition(self, place: Any) -> str:
        return f"{self.name}-{place.device}"

    # --- what everybody sees -------------------------------------------------------------------------------------

    def sight(self, partitions: tuple[Mapping[str, Any], ...] = ()) -> Sight:
        """Look at everything at one moment."""
        files = sorted(self._cdi.glob("*")) if self._cdi.is_dir() else []
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

    async def partitions(self) -> tuple[Json, ...]:
        """Read the node's Partition objects."""
        found, _ = await self._api.items(PARTITIONS, fieldSelector=f"spec.nodeName={self.name}")
        return tuple(found)

    async def serves(self) -> None:
        """Wait until the agent that lives now answers kubelet."""

        async def ask() -> bool:
            return bool(await self._served())

        await self.insist(ask, "the agent's start")

    async def learn_cards(self) -> None:
        """Wait for the slices and remember the cards' UUIDs."""

        async def ask() -> dict[str, str] | None:
            items, _ = await self._api.items(
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


def _holder(claim: Json) -> Json:
    meta = claim["metadata"]
    return {"kind": "ResourceClaim", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
