"""The backends of one node.

In: the agent's options. Out: the backends that they name; with `auto`, those whose hardware is on this node; those of generic
devices, if there is a configuration; and which are awaited, because a driver may come after the agent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from apportion.agent.devices import pci
from apportion.agent.devices.ascend.backend import AscendBackend
from apportion.agent.devices.ascend.knowntemplates import KnownTemplates
from apportion.agent.devices.backend import Backend, Releasable
from apportion.agent.devices.cardcalls import CardCalls
from apportion.agent.devices.generic import configuration
from apportion.agent.devices.generic.backend import GenericBackend
from apportion.agent.devices.generic.configuration import GenericDevices
from apportion.agent.devices.imex.backend import CHANNEL, ImexBackend
from apportion.agent.devices.names import CardNames, UnkeptNames
from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.devices.nvml.knownprofiles import KnownProfiles
from apportion.agent.devices.rdma.away import AWAY, AwayFolder
from apportion.agent.devices.rdma.backend import RdmaBackend
from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.agent.devices.values import CardKind
from apportion.agent.settings import AgentOptions
from apportion.errors import BrokenInput, HardwareError

REAL: Mapping[str, Callable[[AgentOptions, CardNames], NvmlBackend | AscendBackend | RdmaBackend]] = {
    "nvml": lambda options, names: NvmlBackend(
        options.host_root,
        at=options.at,
        names=names,
        sticky_errors=options.sticky_errors(),
        ignored_xids=options.ignored_xids,
        driver_root=options.nvidia_driver_root,
        profiles=KnownProfiles(options.state_dir / "profiles"),
    ),
    "ascend": lambda options, _: AscendBackend(
        options.host_root, at=options.at, templates=KnownTemplates(options.state_dir / "templates")
    ),
    "rdma": lambda options, _: RdmaBackend(options.host_root, AwayFolder(options.run_dir / AWAY)),
}
"""Backends of real hardware; `present()` says whether the vendor's library or devices are on the node."""
KNOWN = ("auto", *REAL, "simulated")
PAUSABLE = "nvml"
"""The backend whose driver is let go of while the Node asks for it."""

_ON_THE_BUS: Mapping[str, tuple[CardKind, int, str]] = {
    "nvml": (CardKind.GPU, 0x10DE, "0x03"),
    "ascend": (CardKind.NPU, 0x19E5, "0x12"),
    "rdma": (CardKind.NIC, 0x15B3, "0x02"),
}
"""By which vendor and class of PCI devices (linux pci_ids.h) hardware is known whose driver is not there."""


_KINDS: Mapping[type, CardKind] = {NvmlBackend: CardKind.GPU, AscendBackend: CardKind.NPU}
"""Kinds of which the first card may come to an agent that runs; what pods' networks need of it is made at its start."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found of the hardware that the options ask for."""

    backends: tuple[Backend, ...]
    absent: tuple[str, ...] = ()
    """Names of backends whose driver is not there, or does not answer; it may come later."""
    awaited: Mapping[str, str] = field(default_factory=dict)
    """Why, for those kinds of cards that the node has, or may have, all the same."""
    generic: GenericDevices = field(default_factory=GenericDevices)
    """The configuration of generic devices; what is broken of it is awaited, too."""

    def kinds(self, *, incomplete: bool) -> frozenset[str]:
        """Return the kinds that are awaited, and where cards did not answer (`incomplete`) those that they may be of.

        Their drivers are served from the start: a card that takes long at each start would end the agent each time it answers.
        """
        there = [_KINDS[type(each)] for each in self.backends if incomplete and type(each) in _KINDS]
        return frozenset((*self.awaited, *there))

    @property
    def pausable(self) -> bool:
        """Whether the node has a driver that may be let go of, or awaits it."""
        return CardKind.GPU in self.awaited or any(isinstance(one, Releasable) for one in self.backends)

    def misconfigured(self) -> tuple[str, ...]:
        """Return what of the configuration of generic devices cannot be taken, and why; nothing when all is well."""
        unnamed = (each.unnamed for each in self.backends if isinstance(each, GenericBackend))
        return (*self.generic.broken.values(), *(reason for reasons in unnamed for reason in reasons))


def backends(options: AgentOptions, names: CardNames | None = None) -> tuple[Backend, ...]:
    """Return the backends that the options ask for; with `auto` there may be none.

    `names` are those of cards to which the driver gives none that lasts; without them new ones are given.
    Raises BrokenInput, and HardwareError when a driver's library is there and no driver answers.
    """
    known = names or UnkeptNames()
    named = [
        backend
        for name in _wanted(options)
        if isinstance(backend := _backend(name, options, known), SimulatedBackend)
        or options.backend != "auto"
        or backend.present()
    ]
    return (*named, *_channels(named, options), *_generic(generic_devices(options), options, known))


def generic_devices(options: AgentOptions) -> GenericDevices:
    """Read the configuration of generic devices."""
    return configuration.read(options.generic_devices, options.drivers.values())


def reconfigured(options: AgentOptions, before: GenericDevices) -> bool:
    """Say whether the configuration of generic devices is another one by now."""
    return configuration.content(options.generic_devices) != before.content


def find(
    options: AgentOptions, names: CardNames | None = None, *, paused: str = "", patience: float = 120.0
) -> Found:
    """Return the backends whose hardware answers, and which others are awaited; `names` as above. Raises BrokenInput.

    `paused`: why NVIDIA's driver is not to be asked; "": it is. `patience`: seconds for all drivers together; one that hangs is awaited.
    Kubelet starts an agent anew that takes more than five minutes.
    """
    there: list[Backend] = []
    absent: list[str] = []
    awaited: dict[str, str] = {}
    known = names or UnkeptNames()
    wanted = {name: _backend(name, options, known) for name in _wanted(options)}
    real = {name: each for name, each in wanted.items() if not isinstance(each, SimulatedBackend)}
    asked = {name: each for name, each in real.items() if not (paused and name == PAUSABLE)}
    why_absent = {PAUSABLE: paused} | _why_absent_within(patience, asked)
    for name, backend in wanted.items():
        why = why_absent.get(name, "")
        if not why:
            there.append(backend)
            continue
        absent.append(name)
        kind, vendor, device_class = _ON_THE_BUS[name]
        if pci.plugged(options.host_root, vendor, device_class):
            awaited[kind] = f"{name}: {why}"
            if kind is CardKind.GPU and options.imex_channels:
                awaited[CHANNEL] = f"{name}: {why}"
    there += _channels(there, options)
    generic = generic_devices(options)
    there += _generic(generic, options, known)
    return Found(tuple(there), tuple(absent), {**awaited, **generic.broken}, generic)


def arrived(options: AgentOptions, absent: Sequence[str]) -> str:
    """Return the first of these backends whose driver answers now, "" for none."""
    return next((name for name in absent if not _why_absent(REAL[name](options, UnkeptNames()))), "")


def _generic(found: GenericDevices, options: AgentOptions, names: CardNames) -> list[GenericBackend]:
    return [GenericBackend(kind, options.host_root, names) for kind in found.kinds]


def _channels(there: Sequence[Backend], options: AgentOptions) -> list[ImexBackend]:
    """Return the backend of IMEX channels, where they are offered and NVIDIA's driver is there."""
    drivers = [each for each in there if isinstance(each, NvmlBackend)] if options.imex_channels else []
    return [ImexBackend(options.host_root, options.imex_channels, driver.cliques) for driver in drivers]


def _why_absent(backend: NvmlBackend | AscendBackend | RdmaBackend) -> str:
    try:
        return "" if backend.present() else "neither library nor device of a driver is on the node"
    except HardwareError as error:
        return str(error)


def _why_absent_within(
    seconds: float, asked: Mapping[str, NvmlBackend | AscendBackend | RdmaBackend]
) -> dict[str, str]:
    """As `_why_absent`, by name, all at once: the cards of other drivers wait no longer than these seconds."""
    calls = {name: partial(_why_absent, backend) for name, backend in asked.items()}
    found: dict[str, str] = {}
    for name, answer in CardCalls(seconds).ask("driver", calls).items():
        if isinstance(answer, BrokenInput):
            raise answer
        late = isinstance(answer, HardwareError)
        found[name] = f"its driver has not answered in {seconds:g} s" if late else str(answer)
    return found


def _wanted(options: AgentOptions) -> list[str]:
    wanted = options.backend.split(",")
    unknown = [name for name in wanted if name not in KNOWN]
    if unknown:
        raise BrokenInput(f"unknown backend {unknown[0]!r}; known are {', '.join(KNOWN)}", field="backend")
    if wanted == ["auto"]:
        return ["simulated"] if options.simulation is not None else [*REAL]
    if "auto" in wanted:
        raise BrokenInput("auto stands alone, or backends by their names", field="backend")
    return wanted


def _backend(
    name: str, options: AgentOptions, names: CardNames
) -> NvmlBackend | AscendBackend | RdmaBackend | SimulatedBackend:
    if name != "simulated":
        return REAL[name](options, names)
    if options.simulation is None:
        raise BrokenInput("the simulated backend needs a simulation file", field="simulation")
    return SimulatedBackend(options.simulation, options.node, at=options.at)
