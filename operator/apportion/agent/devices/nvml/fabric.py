"""The NVLink fabric of GPUs behind NVSwitches: whether a GPU has joined it, and which clique it is in.

In: a session and a GPU's handle. Out: facts of the moment. Rules: nvml.h:7833-7850: on Hopper with NVSwitches and later a GPU is registered
with the Fabric Manager, and only then reaches others; a program that starts on it before fails. NVIDIA's DRA driver (95932046,
cmd/compute-domain-kubelet-plugin/nvlib.go:270-345) reads the same: state completed, status success, and a cluster UUID that is not zero.
"""

from ctypes import byref
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import pynvml

from apportion.agent.devices.nvml.session import NOT_OFFERED, Session
from apportion.dra.device import Scalar

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
