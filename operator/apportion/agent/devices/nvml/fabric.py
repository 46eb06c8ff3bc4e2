"""The NVLink fabric of GPUs behind NVSwitches: whether a GPU has joined it, and which clique it is in.

In: a session and a GPU's handle. Out: facts of the moment. Rules: nvml.h:7833-7850: on Hopper with NVSwitches and later a GPU is registered
with the Fabric Manager, and only then reaches others; a program that starts on it before fails. NVIDIA's DRA driver (95932046,
cmd/compute-domain-kubelet-plugin/nvlib.go:270-345) reads the same: state completed, status success, and a cluster UUID that is not zero.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from ctypes import byref
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import UUID

import pynvml

from apportion.agent.devices.cardcalls import CardCalls
from apportion.agent.devices.nvml.session import NOT_OFFERED, NoSession, Released, Session
from apportion.dra.device import Scalar
from apportion.errors import HardwareError

_nvml: Any = pynvml
"""The same module where its missing annotations stand in the way."""
_UNFINISHED: Final = {
    pynvml.NVML_GPU_FABRIC_STATE_NOT_STARTED: "NotStarted",
    pynvml.NVML_GPU_FABRIC_STATE_IN_PROGRESS: "InProgress",
}


@dataclass(frozen=True, slots=True)
class Fabric:
    """A GPU's place in the fabric."""

    missing: str
    """Why it has not joined, one word; "" when it has."""
    attributes: dict[str, Scalar]
    """`clusterUUID`, and `cliqueID` as NVIDIA's driver writes it (`<cluster UUID>.<clique>`); none on fabrics of one node."""


def fabric(session: Session, gpu: Any, about: str) -> Fabric | None:
    """Return a GPU's place in the fabric, None where there is no fabric. Raises HardwareError when it cannot be asked."""
    info = _nvml.c_nvmlGpuFabricInfo_v2_t()
    info.version = pynvml.nvmlGpuFabricInfo_v2
    asked = session.ask("nvmlDeviceGetGpuFabricInfoV", gpu, byref(info), none_on=NOT_OFFERED, about=about)
    if asked is None or info.state == pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED:
        return None
    if info.state != pynvml.NVML_GPU_FABRIC_STATE_COMPLETED:
        return Fabric(_UNFINISHED.get(info.state, "Unknown"), {})
    if info.status != pynvml.NVML_SUCCESS:
        return Fabric("Failed", {})
    cluster = UUID(bytes=bytes(info.clusterUuid))
    clique = {"clusterUUID": str(cluster), "cliqueID": f"{cluster}.{info.cliqueId}"}
    return Fabric("", dict(clique) if cluster.int else {})


class Cliques:
    """The cliques of the GPUs of one node."""

    def __init__(self, session: Session, calls: CardCalls) -> None:
        """`calls` ask GPUs, all at once."""
        self._session = session
        self._calls = calls
        self._seen: dict[str, str] = {}

    @property
    def released(self) -> bool:
        """Whether the driver is let go of, and nobody asks it."""
        return bool(self._session.released)

    @property
    def seen(self) -> Collection[str]:
        """The cliques of GPUs behind NVSwitches when last asked, "" for one that is in none."""
        return tuple(self._seen.values())

    def note(self, card: str, place: Fabric | None) -> None:
        """Remember where a GPU was found."""
        self._seen[card] = _clique(place)

    @contextmanager
    def asking(self, card: str) -> Iterator[None]:
        """Forget where a GPU was found if it does not answer while the others may: then it has no say."""
        try:
            yield
        except (NoSession, Released):
            raise
        except HardwareError:
            self._seen.pop(card, None)
            raise

    def common(self) -> str:
        """Ask for the clique of all GPUs that are in one; "": there is none, or they disagree.

        A GPU that does not answer, or not in time, has no say. Raises NoSession or Released when none can be asked.
        """
        count = self._session.call("nvmlDeviceGetCount")
        answers = self._calls.ask("clique", {index: partial(self._of, index) for index in range(count)})
        found: set[str] = set()
        for answer in answers.values():
            if isinstance(answer, NoSession | Released):
                raise answer
            if isinstance(answer, str):
                found.add(answer)
        found.discard("")
        return found.pop() if len(found) == 1 else ""

    def _of(self, index: int) -> str:
        about = f"GPU {index}"
        gpu = self._session.call("nvmlDeviceGetHandleByIndex", index, about=about)
        return _clique(fabric(self._session, gpu, about))


def _clique(place: Fabric | None) -> str:
    return str(place.attributes.get("cliqueID", "")) if place is not None else ""
