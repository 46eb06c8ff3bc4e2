"""Two replicas of the operator, each behind a proxy of its own, on a control plane of their own.

In: nodes, how long their containers take to stop, how long a violation may last. Out: the installation, what checks it,
the proxies in the order of the replicas, and a tenant of the soak.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from testbed.binaries import Binaries
from testbed.checker import STAYS_SECONDS, Checker
from testbed.controlplane import ControlPlane
from testbed.faultyproxy import FaultyProxy
from testbed.installation import Installation, SimulatedNode
from tests.e2e.tenant import LEASE, Tenant
from tests.soaktenant import soak_tenant


class Pair(NamedTuple):
    """What runs, and whose pods."""

    installation: Installation
    checker: Checker
    proxies: tuple[FaultyProxy, FaultyProxy]
    tenant: Tenant


@asynccontextmanager
async def replica_pair(
    binaries: Binaries, nodes: Sequence[SimulatedNode], *, stays: float = STAYS_SECONDS, **kubelet: float
) -> AsyncIterator[Pair]:
    """Run both; `stays` as in `Checker` (seconds), `kubelet` as in `FakeKubelet`."""
    async with (
        ControlPlane(binaries=binaries) as cluster,
        FaultyProxy(cluster.kubeconfig) as one,
        FaultyProxy(cluster.kubeconfig) as other,
        Installation(
            cluster,
            nodes,
            operators=2,
            operator_options=LEASE,
            kubelet_options=kubelet,
            proxies=[one, other],
        ) as installation,
        Checker(installation, stays=stays) as checker,
    ):
        yield Pair(installation, checker, (one, other), await soak_tenant(installation, "pair"))
