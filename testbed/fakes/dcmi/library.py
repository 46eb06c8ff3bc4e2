"""The fake DCMI: builds the library, makes state files, reads them and injects faults.

In: models and a folder. Out: a `FakeDcmi`, whose `environment` makes any process use it instead of a driver. It reads
and writes the state file itself, so tests check the product against it. What the library does is in the C files of this folder.
"""

import ctypes
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path

from testbed.fakes.dcmi import layout
from testbed.fakes.dcmi.models import chips_per_card, fill, ring
from testbed.fakes.dcmi.permissions import answers
from testbed.fakes.driver import FakeDriver
from testbed.fakes.statefile.layout import Header

_SELF, _SYS, _HCCS, _SIO, _HCCS_SWITCH = 0, 1, 3, 6, 7
_IN_USE_CONTAINER = 0xFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class Vnpu:
    """A vNPU as it is on the fake hardware."""

    phy: int
    """Of its chip."""
    id: int
    template: str
    in_use: bool
    serial: int
    """Never reused: distinguishes a vNPU from a later one with the same id."""


class FakeDcmi(FakeDriver[layout.State]):
    """One fake node's driver: a state file, shared by every process that has `environment`."""

    layout = layout.State
    variable = "APPORTION_FAKE_DCMI"
    sources = Path(__file__).parent
    soname = "libdcmi.so"

    @classmethod
    def create(
        cls,
        path: Path,
        models: Sequence[str],
        *,
        driver: str = "24.1.rc3",
        recovery: Path | None = None,
        recover: bool = False,
        mounted: bool = False,
    ) -> "FakeDcmi":
        """Make a state file with one chip of each model named, whose callers are root in a privileged container.

        `recovery`: where the host keeps its vnpu.cfg; `recover`: vNPUs in it are made again at boot; `mounted`: containers have it
        too, instead of a file of their own.
        """
        state = layout.State(
            header=Header(layout.MAGIC, layout.LAYOUT, ctypes.sizeof(layout.State), 1),
            chips=len(models),
            recover=int(recover),
            own_recover=1,
            mounted=int(mounted),
            place=layout.PRIVILEGED,
            next_serial=1,
            driver=driver.encode(),
            recovery=str(recovery or "").encode(),
        )
        for index, answer in enumerate(answers()):
            state.answer[index], state.answers = answer, index + 1
        for index, model in enumerate(models):
            chip = state.chip[index]
            fill(chip, model)
            before = state.chip[index - 1]
            # Cards are numbered from 1, as slots are: code that takes a card's number for a chip's fails.
            if index and model == models[index - 1] and before.device + 1 < chips_per_card(model):
                chip.card, chip.device = before.card, before.device + 1
            else:
                chip.card = before.card + 1 if index else 1
            chip.logic, chip.phy = index, index
            chip.first_id = chip.phy * 16 + 100
            chip.bus, chip.numa = 0x81 + index, index * 2 // len(models)
            for kind, row in (("v", chip.die), ("n", chip.die_n)):
                digest = hashlib.sha256(f"{path}/{index}/{kind}".encode()).digest()
                for word in range(5):
                    row[word] = int.from_bytes(digest[4 * word : 4 * word + 4], "big")
            if chip.family == layout.C910:
                chip.sdid, chip.pod_size, chip.pod, chip.server = index, 384, 7, 3
            for other in range(len(models)):
                state.link[index][other] = _link(index, other, model, models[other])
        return cls._write(path, state)

    def vnpus(self) -> tuple[Vnpu, ...]:
        """List all vNPUs, in the order of chips and ids."""
        state = self.read()
        found = [
            Vnpu(
                phy=chip.phy,
                id=row.id,
                template=chip.template[row.template].name.decode(),
                in_use=bool(row.in_use),
                serial=row.serial,
            )
            for chip in state.chip[: state.chips]
            for row in chip.vdevice
            if row.used
        ]
        return tuple(sorted(found, key=lambda row: row.id))

    def create_by_hand(self, chip: int, template: str, number: int) -> None:
        """Make a vNPU as npu-smi does; free resources are not checked."""
        with self.changing() as state:
            row = state.chip[chip]
            names = [one.name.decode() for one in row.template[: row.templates]]
            free = next(one for one in row.vdevice if not one.used)
            free.used, free.id, free.template = 1, number, names.index(template)
            free.saved, free.in_use, free.serial = state.recover, 0, state.next_serial
            state.next_serial += 1
            row.sriov = int(row.family == layout.B910)

    def remove_by_hand(self, number: int) -> None:
        """Remove a vNPU as npu-smi does."""
        with self.changing() as state:
            for chip in state.chip[: state.chips]:
                for row in chip.vdevice:
                    row.used = int(row.used and row.id != number)

    @contextmanager
    def nameless(self, chip: int) -> Iterator[None]:
        """Have the driver tell the templates of no vNPU that a chip has, until the block ends: it writes 0xff in their place."""
        with self.changing() as state:
            row = state.chip[chip]
            before, known = row.templates, {one.id: one.template for one in row.vdevice if one.used}
            for one in row.vdevice:
                if one.used:
                    row.template[row.templates] = row.template[one.template]
                    row.template[row.templates].name = b"\xff"
                    one.template, row.templates = row.templates, row.templates + 1
        yield
        with self.changing() as state:
            row = state.chip[chip]
            for one in row.vdevice:
                if one.used and one.template >= before:
                    one.template = known[one.id]
            row.templates = before

    def heal(self) -> None:
        """Remove all faults, bring lost chips back and make all healthy."""
        self.drop_rules()
        with self.changing() as state:
            for chip in state.chip:
                chip.lost = chip.health = 0
                for row in chip.event:
                    row.used = 0

    def lose(self, chip: int) -> None:
        """Let a chip fall off the bus: every call on it fails."""
        with self.changing() as state:
            state.chip[chip].lost = 1

    def reboot_without(self, chip: int) -> None:
        """Reboot the node, on which a chip has died: it is in no list, and those after it are numbered anew.

        Logical ids have no gaps, nor have a card's chips (source: none); physical ids follow the slots on servers and modules, and the order of discovery on cards
        (hicann/driver at ef377e9, src/sdk_driver/comm/pcie/dc/host/cloud_v2/res_drv_cloud_v2.c:1180-1196 and cloud_v1/
        res_drv_cloud_v1.c:459-475; 310P: source: none, they are cards).
        """
        self.reboot()
        with self.changing() as state:
            rest = [copy(row) for index, row in enumerate(state.chip[: state.chips]) if index != chip]
            for index, row in enumerate(rest):
                row.logic, row.device = index, sum(other.card == row.card for other in rest[:index])
                if row.family == layout.P310:
                    row.phy, row.first_id = index, index * 16 + 100
                state.chip[index] = row
            state.chips = len(rest)

    def set_health(self, chip: int, health: int) -> None:
        """Set a chip's health (0 normal, 1 minor, 2 major, 3 critical), with an error code unless it is normal."""
        with self.changing() as state:
            row = state.chip[chip]
            row.health = health
            row.event[0] = layout.Event(int(health > 0), 0x80E01801)

    def occupy(self, vnpu: int, *, used: bool = True) -> None:
        """Let a container use a vNPU, or no longer."""
        with self.changing() as state:
            for chip in state.chip:
                for row in chip.vdevice:
                    if row.used and row.id == vnpu:
                        row.in_use, row.container = int(used), _IN_USE_CONTAINER if used else 0
                        return
        raise KeyError(vnpu)

    def set_mode(self, *, virtual_machines: bool = False, smp: bool = False) -> None:
        """Set the modes of the node: vNPUs for virtual machines, the 910's work mode."""
        with self.changing() as state:
            state.mode, state.smp = int(virtual_machines), int(smp)

    def call_from(self, place: int) -> None:
        """Set who calls, and from where (`layout`): what the library answers depends on it."""
        with self.changing() as state:
            state.place = place

    @property
    def recovers(self) -> bool:
        """Whether the driver makes vNPUs again at boot."""
        return bool(self.read().recover)

    def reboot(self) -> None:
        """Reboot the node: vNPUs go; those in the recovery file come back under their ids."""
        with self.changing() as state:
            for chip in state.chip[: state.chips]:
                chip.lost = chip.next_id = chip.sriov = 0
                for row in chip.vdevice:
                    row.in_use = row.container = 0
                    row.used = int(row.saved and state.recover)
                    if row.used:
                        row.serial, state.next_serial = state.next_serial, state.next_serial + 1
                        chip.sriov = int(chip.family == layout.B910)


def _link(here: int, there: int, model: str, other: str) -> int:
    if here == there:
        return _SELF
    size = ring(model)
    if model != other or not size or here // size != there // size:
        return _SYS
    if model == "A3":
        return _SIO if here // 2 == there // 2 else _HCCS_SWITCH
    return _HCCS
