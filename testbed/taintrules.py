"""DeviceTaintRules: where a control plane serves them, and what has the oldest version serve them, where they are a beta that is off by default."""

from collections.abc import Mapping, Sequence
from typing import Final

from testbed.components import APISERVER, CONTROLLER_MANAGER, SCHEDULER
from testbed.versions import OLDEST

_GATE: Final = "--feature-gates=DRADeviceTaintRules=true"


def flags(version: str) -> Mapping[str, Sequence[str]]:
    """Return the arguments for each component."""
    if version != OLDEST:
        return {}
    beta = "--runtime-config=resource.k8s.io/v1beta2/devicetaintrules=true"
    return {APISERVER: (_GATE, beta), CONTROLLER_MANAGER: (_GATE,), SCHEDULER: (_GATE,)}


def collection(version: str) -> str:
    """Return the URL path."""
    return f"/apis/resource.k8s.io/{'v1beta2' if version == OLDEST else 'v1'}/devicetaintrules"
