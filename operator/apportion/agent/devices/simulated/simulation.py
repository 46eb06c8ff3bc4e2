"""Simulation: the file that describes a simulated node.

In: YAML or JSON text. Out: a checked description (pydantic), from which `cards.py` makes cards. Example:

    cards:
      - {model: H100-80GB, count: 8, driverVersion: 550.90.7, cudaDriverVersion: 12.4.0}
    nics:
      - {name: mlx5-0, pcieRoot: pci0000:10, numaNode: 0}
    faults: {createDelay: 0.5}
    foreign:
      - {card: gpu-7, profile: 1g.10gb, start: 6}
"""

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from apportion.errors import BrokenInput


class _Part(BaseModel):
    """Camel case in the file, snake case in the code; unknown fields are typing errors."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class Cards(_Part):
    """Some cards of one model."""

    model: str
    """A name from the data files, such as `H100-80GB`, `910B4`, `310P`."""
    count: int = Field(default=1, ge=1, le=64)
    pcie_roots: tuple[str, ...] = ()
    """PCIe root of each card; fewer than cards: each root serves several consecutive ones. Default: one per two cards."""
    numa_nodes: tuple[int, ...] = ()
    """NUMA node of each card, spread like `pcieRoots`; -1 for unknown. Default: two nodes, half the cards each."""
    sockets: tuple[int, ...] = ()
    """CPU socket of each card (attribute `socket`), spread like `pcieRoots`. Default: not published."""
    nvlink: int = Field(default=0, ge=0)
    """How many GPUs NVLink joins, counted from the first; 0: none."""
    hccs: int | None = Field(default=None, ge=0)
    """How many chips HCCS joins; 0: none. Default: as the model says. 4 on an Atlas 800 with eight 910A."""
    chips_per_card: int = Field(default=1, ge=1)
    """2 on an Atlas 300I Duo and an Atlas A3 (a module is a card to the driver), 4 on an Atlas 300I."""
    addresses: bool = False
    """Whether each NPU carries a NIC with an address (attribute `deviceIP`), as training chips do."""
    driver_version: str = "1.0.0"
    cuda_driver_version: str = "12.4.0"
    device_nodes: bool = False
    """Inject the vendor's device files; they must exist on the machine that runs containers."""


class Nic(_Part):
    """One RDMA-capable network card."""

    name: str
    """`mlx5-0`: the device is then `nic-mlx5-0`."""
    pcie_root: str
    numa_node: int | None = None
    socket: int | None = None
    rdma: bool = True
    link_type: str = "infiniband"
    device_nodes: bool = False


class ForeignPartition(_Part):
    """A partition that exists before the agent first starts and that it did not make."""

    card: str
    profile: str
    start: int
    in_use: bool = False


class Failure(_Part):
    """The next calls of a verb on a card fail."""

    error: str = Field(pattern="^(Busy|NoRoom|Lost|Unsupported)$")
    card: str = ""
    """Empty: any card."""
    verb: str = Field(default="create", pattern="^(create|destroy)$")
    times: int = Field(default=1, ge=1)


class Faults(_Part):
    """What goes wrong, and how slowly."""

    create_delay: float = Field(default=0.0, ge=0)
    """Seconds between the two halves of a creation."""
    destroy_delay: float = Field(default=0.0, ge=0)
    failures: tuple[Failure, ...] = ()
    sick: tuple[str, ...] = ()
    """Cards that report bad health."""
    lost: tuple[str, ...] = ()
    """Cards that do not answer."""


class Simulation(_Part):
    """One simulated node."""

    cards: tuple[Cards, ...] = ()
    nics: tuple[Nic, ...] = ()
    faults: Faults = Faults()
    foreign: tuple[ForeignPartition, ...] = ()
    state: str = ""
    """Name of the file that holds the live state, in the same folder. Default: `<this file>.state.json`."""


def load(path: Path) -> tuple[Simulation, Path]:
    """Read a simulation file; returns it with the path of its state file. Raises BrokenInput naming the field."""
    try:
        # JSON is YAML, so one parser reads both.
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
        simulation = Simulation.model_validate(raw or {})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BrokenInput(f"simulation file {path}: {first['msg']}", field=field) from None
    except (OSError, yaml.YAMLError, ValueError) as error:
        raise BrokenInput(f"simulation file {path}: {' '.join(str(error).split())}") from None
    return simulation, path.with_name(simulation.state or f"{path.name}.state.json")
