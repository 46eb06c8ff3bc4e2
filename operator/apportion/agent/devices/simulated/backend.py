"""The simulated backend: the protocol on a state file, with the vendors' placement rules and faults on request.

In: a simulation file. Out: cards, partitions and refusals as a driver would give them. Rules: MIG instances need
disjoint memory slices and enough engines (NVIDIA MIG User Guide); vNPUs need cores, AI CPUs, media engines and memory
(the driver's totals), and an id of the chip's range. The 310P's vGroups are not modelled: with 2 cores to a group, the
cores run out first unless releases leave two half-filled groups.
"""

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from apportion.agent.devices.models import CardModel
from apportion.agent.devices.simulated import cards
from apportion.agent.devices.simulated.sharing import SimulatedSharing
from apportion.agent.devices.simulated.simulation import ForeignPartition, load
from apportion.agent.devices.simulated.state import State, StateFile
from apportion.agent.devices.values import (
    Card,
    CardKind,
    Edits,
    Health,
    LivePartition,
    PartitionPlace,
    Placement,
)
from apportion.errors import Busy, HardwareError, Lost, NoRoom, Unsupported

_ERRORS: Mapping[str, type[HardwareError]] = {
    error.__name__: error for error in (Busy, NoRoom, Lost, Unsupported)
}


class SimulatedBackend:
    """One simulated node: any mix of GPUs, NPUs and NICs."""

    def __init__(
        self,
        file: Path,
        node: str,
        *,
        sleep: Callable[[float], None] = time.sleep,
        at: Callable[[str], None] = lambda _: None,
        new_id: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        """Read the simulation; the first one to do so switches the node on, with its faults and foreign partitions.

        `node` makes the cards' UUIDs differ between nodes; `at` is called between the two halves of a creation, for
        crash tests. Raises BrokenInput for a file that cannot be read.
        """
        simulation, path = load(file)
        self._made = cards.make(simulation, node)
        self._cards = {card.name: card for card, *_ in self._made}
        self._models = {card.name: model for card, model, _ in self._made if model is not None}
        self._edits = {card.name: edits for card, _, edits in self._made}
        self._sleep = sleep
        self._at = at
        self._new_id = new_id
        self.state = StateFile(path)
        self.sharing = SimulatedSharing(self.state)
        """Sets GPUs up for programs that share them."""
        with self.state.changing() as state:
            if not state["faults"]:
                state["faults"] = simulation.faults.model_dump(by_alias=True)
                for foreign in simulation.foreign:
                    self._add_foreign(state, foreign)

    def devices(self) -> tuple[Card, ...]:
        """Return the cards of the simulation file, in its order."""
        return tuple(self._cards.values())

    def incomplete(self) -> bool:
        """Return False: simulated cards answer at discovery."""
        return False

    def edits(self, card: str) -> Edits:
        """Return the card's device files, if the simulation wants some."""
        return self._edits[card]

    def partitions(self, cards: Collection[str] | None = None) -> tuple[LivePartition, ...]:
        """Return every partition of the state file, on these cards only, if some are named."""
        rows = self.state.read()["partitions"]
        return tuple(self._live(row) for row in rows if cards is None or row["card"] in cards)

    def partitions_of(self, card: str) -> tuple[LivePartition, ...]:
        """Return those of one card; simulated cards always answer this."""
        return self.partitions((card,))

    def create(self, place: PartitionPlace) -> LivePartition:
        """Cut a partition, in two steps with a pause between, as a GPU instance and its compute instance are."""
        card, model = self._card(place.card)
        with self.state.changing() as state:
            delay = float(state["faults"].get("createDelay", 0))
            error = self._next_failure(state, "create", place.card)
            if error is None:
                self._check_room(state, card, model, place)
                row = self._row(state, card, place)
                state["partitions"].append(row)
        if error is not None:
            raise error
        self._at("hardware.half_made")
        self._sleep(delay)
        with self.state.changing() as state:
            for row in state["partitions"]:
                if _is(row, place):
                    row["complete"] = True
                    row["uuid"] = f"{'MIG' if card.kind is CardKind.GPU else 'VNPU'}-{self._new_id()}"
                    return self._live(row)
        raise Lost(f"{place} vanished while it was being made")

    def destroy(self, live: LivePartition) -> None:
        """Remove a partition, unless something uses it."""
        with self.state.changing() as state:
            delay = float(state["faults"].get("destroyDelay", 0))
            error = self._next_failure(state, "destroy", live.card)
        if error is not None:
            raise error
        self._sleep(delay)
        with self.state.changing() as state:
            for row in state["partitions"]:
                if _is(row, live.place) and row["uuid"] == live.uuid:
                    if row["inUse"]:
                        raise Busy(f"{live.place} is in use")
                    state["partitions"].remove(row)
                    return

    def make_whole(self, card: str) -> None:
        """Simulated cards have no mode: they are whole as soon as they are empty."""
        if any(row["card"] == card for row in self.state.read()["partitions"]):
            raise Busy(f"{card} is cut")

    def health(self, cards: Collection[str] | None = None) -> Mapping[str, Health]:
        """Return the cards that the state file calls sick or lost."""
        faults = self.state.read()["faults"]
        sick = dict.fromkeys(faults.get("sick", ()), Health.SICK)
        found = sick | dict.fromkeys(faults.get("lost", ()), Health.LOST)
        return {name: health for name, health in found.items() if cards is None or name in cards}

    def _card(self, name: str) -> tuple[Card, CardModel]:
        if name not in self._models:
            raise Unsupported(f"{name} cannot be cut")
        return self._cards[name], self._models[name]

    def _next_failure(self, state: State, verb: str, card: str) -> HardwareError | None:
        """Use up one failure of this verb and card, if one is waiting; the caller raises it after the state is kept."""
        faults = state["faults"]
        if card in faults.get("lost", ()):
            return Lost(f"{card} does not answer")
        for failure in faults.get("failures", ()):
            if failure["verb"] == verb and failure["card"] in ("", card) and failure["times"] > 0:
                failure["times"] -= 1
                return _ERRORS[failure["error"]](f"injected at {verb} on {card}")
        return None

    def _check_room(self, state: State, card: Card, model: CardModel, place: PartitionPlace) -> None:
        profile = card.profile(place.profile)
        if profile is None:
            raise Unsupported(f"{card.name} has no profile {place.profile}")
        others = [row for row in state["partitions"] if row["card"] == card.name]
        if card.slices:
            if place.placement not in profile.placements:
                raise Unsupported(f"{place} is no placement of {place.profile}")
            if any(_overlap(row, place.placement) for row in others):
                raise NoRoom(f"{place}: a memory slice is taken")
        elif place.placement.start not in card.instance_ids:
            raise Unsupported(f"{place} is no vNPU id of the chip")
        elif any(row["start"] == place.placement.start for row in others):
            raise NoRoom(f"{place}: the vNPU id is taken")
        if model.most and len(others) >= model.most:
            raise NoRoom(f"{place}: the chip holds {model.most} vNPUs at most")
        if card.slices and sum(row["profile"] == profile.name for row in others) >= profile.most:
            raise NoRoom(f"{place}: at most {profile.most} of this profile")
        taken = [found.amounts for row in others if (found := card.profile(row["profile"]))]
        for key, amount in profile.amounts.items():
            if amount and sum(amounts[key] for amounts in taken) + amount > model.totals[key]:
                raise NoRoom(f"{place}: not enough {key}")

    def _row(self, state: State, card: Card, place: PartitionPlace) -> State:
        number = state["next"]
        state["next"] = number + 1
        ids = (
            {"gpuInstance": str(number), "computeInstance": "0"}
            if card.kind is CardKind.GPU
            else {"vnpu": str(place.placement.start)}
        )
        return {
            "card": card.name,
            "profile": place.profile,
            "start": place.placement.start,
            "size": place.placement.size,
            "uuid": "",
            "instance": ids,
            "complete": False,
            "inUse": False,
            "foreign": False,
        }

    def _add_foreign(self, state: State, foreign: ForeignPartition) -> None:
        card, model = self._card(foreign.card)
        profile = card.profile(foreign.profile)
        sizes: Iterable[Placement] = profile.placements if profile else ()
        size = next((place.size for place in sizes if place.start == foreign.start), 1)
        place = PartitionPlace(card.name, foreign.profile, Placement(foreign.start, size))
        self._check_room(state, card, model, place)
        row = self._row(state, card, place)
        row.update(complete=True, foreign=True, inUse=foreign.in_use, uuid=f"MIG-{self._new_id()}")
        state["partitions"].append(row)

    def _live(self, row: State) -> LivePartition:
        return LivePartition(
            card=row["card"],
            profile=row["profile"],
            placement=Placement(row["start"], row["size"]),
            uuid=row["uuid"],
            instance=dict(row["instance"]),
            complete=row["complete"],
            in_use=row["inUse"],
            edits=cards.partition_edits(self._cards[row["card"]], self._edits[row["card"]], row["instance"]),
        )


def _is(row: State, place: PartitionPlace) -> bool:
    return PartitionPlace(row["card"], row["profile"], Placement(row["start"], row["size"])) == place


def _overlap(row: State, placement: Placement) -> bool:
    return bool(
        row["start"] < placement.start + placement.size and placement.start < row["start"] + row["size"]
    )
