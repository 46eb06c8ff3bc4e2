"""An operator that starts before its CRDs: a real process on a real control plane."""

import asyncio
import sys
from contextlib import suppress

import aiohttp

from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.installation import NAMESPACE, install, product_environment
from testbed.ports import free_ports
from testbed.readiness import answers
from testbed.supervised import Supervised

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


async def test_an_operator_without_its_crds_is_not_ready_and_acts_when_they_come(binaries: Binaries) -> None:
    """It does not take the lease meanwhile, and needs no restart."""
    [port] = free_ports(1)
    async with ControlPlane(binaries=binaries) as cluster:
        await cluster.kubectl("create", "namespace", NAMESPACE)
        command = [sys.executable, "-m", "apportion", "operator", "--namespace", NAMESPACE]
        options = ["--kubeconfig", cluster.kubeconfig, "--health-port", str(port), "--log-format", "console"]
        operator = Supervised(
            "operator", [*command, *options], cluster.log_path("operator"), environment=product_environment()
        )

        async def holders() -> list[str]:
            found, _ = await cluster.api.items(LEASES)
            return [each["spec"]["holderIdentity"] for each in found]

        async def said(path: str) -> bool | None:
            """Return whether the operator says yes; None: it has not answered yet."""
            with suppress(aiohttp.ClientError, TimeoutError):
                return await answers(f"http://127.0.0.1:{port}{path}")
            return None

        async def logged() -> str:
            return operator.log.read_text() if operator.log.exists() else ""

        operator.start()
        try:
            await eventually(lambda: said("/healthz"), within=60)
            await asyncio.sleep(4)
            ready = await eventually(lambda: said("/readyz"), lambda found: found is not None)
            assert not ready
            assert await holders() == []
            await install(cluster)
            await eventually(holders, within=60)
            ready = await eventually(lambda: said("/readyz"), lambda found: found is not None)
            assert ready
            await eventually(logged, lambda text: "operator.acting" in text, within=60)
        finally:
            await operator.stop()
