"""The backends of one node.

In: the agent's options. Out: the backends that they name; with `auto`, those whose hardware is on this node.
"""

from collections.abc import Callable, Mapping

from apportion.agent.devices.ascend.backend import AscendBackend
from apportion.agent.devices.backend import Backend
from apportion.agent.devices.names import CardNames, UnkeptNames
from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.devices.rdma.backend import RdmaBackend
from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.agent.settings import AgentOptions
from apportion.errors import BrokenInput

REAL: Mapping[str, Callable[[AgentOptions, CardNames], NvmlBackend | AscendBackend | RdmaBackend]] = {
    "nvml": lambda options, names: NvmlBackend(
        options.host_root,
        at=options.at,
        names=names,
        sticky_errors=options.sticky_errors(),
        ignored_xids=options.ignored_xids,
    ),
    "ascend": lambda options, _: AscendBackend(options.host_root, at=options.at),
    "rdma": lambda options, _: RdmaBackend(options.host_root),
}
"""Backends of real hardware; `present()` says whether the vendor's library or devices are on the node."""
KNOWN = ("auto", *REAL, "simulated")


def backends(options: AgentOptions, names: CardNames | None = None) -> tuple[Backend, ...]:
    """Return the backends that the options ask for; with `auto` there may be none. Raises BrokenInput.

    `names` are those of cards to which the driver gives none that lasts; without them new ones are given.
    """
    wanted = options.backend.split(",")
    unknown = [name for name in wanted if name not in KNOWN]
    if unknown:
        raise BrokenInput(f"unknown backend {unknown[0]!r}; known are {', '.join(KNOWN)}", field="backend")
    if wanted == ["auto"]:
        wanted = ["simulated"] if options.simulation is not None else [*REAL]
    if "auto" in wanted:
        raise BrokenInput("auto stands alone, or backends by their names", field="backend")
    return tuple(
        found for name in wanted if (found := _backend(name, options, names or UnkeptNames())) is not None
    )


def _backend(name: str, options: AgentOptions, names: CardNames) -> Backend | None:
    if name == "simulated":
        if options.simulation is None:
            raise BrokenInput("the simulated backend needs a simulation file", field="simulation")
        return SimulatedBackend(options.simulation, options.node, at=options.at)
    found = REAL[name](options, names)
    return found if options.backend != "auto" or found.present() else None
