"""A faulty API server, and an operator that is killed: no device is used twice, and none is lost."""

import asyncio
import os
import random
from collections.abc import Iterator
from typing import Final

import pytest

from testbed.api import Json
from testbed.binaries import Binaries
from testbed.checker import Checker, settled
from testbed.controlplane import ControlPlane
from testbed.faultyproxy import Fault, FaultyProxy, Rule
from testbed.installation import Installation, SimulatedNode
from tests.storm import workload
from tests.storm.load import Load, phase

SECONDS: Final = float(os.environ.get("APPORTION_FAULTY_SECONDS", "45"))
"""How long the server is faulty."""
_SEED: Final = int(os.environ.get("APPORTION_FAULTY_SEED", "11"))
_NODES: Final = [
    SimulatedNode(f"n{number}", {"cards": [{"model": "H100-80GB", "count": 4}]}) for number in range(2)
]
_GPUS: Final = 8
_MOST_PODS: Final = 30
"""More than fit, since most of them ask for a whole card: a free card is taken at once, and a pod that lost its card goes on waiting."""
_CLAIMS: Final = "/resourceclaims/"


def rules() -> Iterator[Rule]:
    """Yield what happens, about once in ten writes and reads."""
    for fault in (Fault.LOSE_ANSWER, Fault.FAIL, Fault.GARBLE, Fault.DROP_REQUEST):
        yield Rule(fault, "PATCH", _CLAIMS, chance=0.08)
    yield Rule(Fault.HOLD_REQUEST, "PATCH", _CLAIMS, chance=0.2, seconds=7)
    yield Rule(Fault.HOLD_ANSWER, "PATCH", _CLAIMS, chance=0.1, seconds=10)
    yield Rule(Fault.HOLD_ANSWER, "GET", chance=0.05, seconds=2)
    yield Rule(Fault.THROTTLE, chance=0.05, seconds=1)
    yield Rule(Fault.STALE, "GET", _CLAIMS, chance=0.1)
    yield Rule(Fault.CUT, chance=0.5)
    yield Rule(Fault.REPLAY, chance=0.7)


async def churn(loads: list[Load], choose: random.Random) -> None:
    """Make pods and delete others, until cancelled."""
    made: list[tuple[Load, str]] = []
    for number in range(100_000):
        load, kind = choose.choice(loads), choose.choice(("gpu", "gpu", "1g10gb"))
        name = f"t-{number:05d}"
        await load.create("pods", [workload.pod(name, resourceClaimTemplateName=kind)])
        made.append((load, name))
        if len(made) > _MOST_PODS:
            load, name = made.pop(choose.randrange(len(made)))
            await load.cluster.api.delete(f"/api/v1/namespaces/{load.namespace}/pods/{name}")
            await asyncio.sleep(choose.uniform(0.1, 0.5))


async def kill(installation: Installation, choose: random.Random) -> None:
    """Kill the operator now and then, until cancelled."""
    while True:
        await asyncio.sleep(choose.uniform(20, 40))
        installation.operators[0].kill()


@pytest.mark.slow
@pytest.mark.timeout(240 + 2 * SECONDS)
async def test_no_device_is_used_twice_or_lost_behind_a_faulty_server(
    binaries: Binaries, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a namespace with the gate and in one without; afterwards all cards can be had by pods that ask for a whole one."""
    choose = random.Random(_SEED)  # noqa: S311 - no secret, but the same choice every time
    async with (
        ControlPlane(binaries=binaries) as cluster,
        FaultyProxy(cluster.kubeconfig, rules(), seed=_SEED) as proxy,
        Installation(
            cluster, _NODES, operator_options=("--lease-duration", "9"), proxy=proxy
        ) as installation,
        Checker(installation) as checker,
    ):
        names = [
            await cluster.make_namespace("gated", {"apportion.dev/managed": "true"}),
            await cluster.make_namespace("plain"),
        ]
        loads = [Load(cluster, installation, checker, name) for name in names]
        for load in loads:
            await load.create("resourceclaimtemplates", workload.templates())
        disturbing = [
            asyncio.create_task(churn(loads, choose)),
            asyncio.create_task(kill(installation, choose)),
        ]
        await asyncio.wait(disturbing, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for task in disturbing:
            assert not task.done(), task
            task.cancel()
        checker.check()
        proxy.rules.clear()
        given = checker.allocations
        for load in loads:
            await cluster.api.delete_all(f"/api/v1/namespaces/{load.namespace}/pods")

        async def left() -> list[str]:
            return [name for load in loads for name in (*load.pods(), *load.claims())]

        await settled(checker, left, within=90)
        last = [workload.pod(f"last-{number}", resourceClaimTemplateName="gpu") for number in range(_GPUS)]
        await loads[0].create("pods", last)

        async def waiting() -> list[str]:
            pods: dict[str, Json] = loads[0].pods()
            return [name for number in range(_GPUS) if phase(pods.get(name := f"last-{number}")) != "Running"]

        try:
            await settled(checker, waiting, within=90)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{await loads[0].warnings()}") from None
        with capsys.disabled():
            faults = ", ".join(f"{fault.name} {count}" for fault, count in sorted(proxy.faults.items()))
            starts = installation.operators[0].starts
            print(f"\nfaulty server: {given} allocations in {SECONDS:.0f} s, {starts} starts; {faults}")  # noqa: T201
        # Which ones happen depends on what is asked in the time; a test in which none do shows nothing.
        assert len(proxy.faults) > len(Fault) / 2
