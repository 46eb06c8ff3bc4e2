"""Claims as in the demo manifests of NVIDIA's DRA driver, on an installation that has its driver's names (docs/nvidia-manifests.md)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from testbed.api import Json
from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.demo.nodes import h100
from testbed.installation import MANIFESTS, Installation, SimulatedNode
from tests.e2e.tenant import LEASE, MANAGED, Tenant, claim, devices, pod, request, serving

OVERLAY = MANIFESTS / "overlays/nvidia-names"
DRIVER = GPU = "gpu.nvidia.com"
A100 = {"model": "A100-80GB", "count": 2, "driverVersion": "550.90.7", "cudaDriverVersion": "12.4.0"}


def drivers() -> str:
    """Return the operator's option of the overlay."""
    patches = yaml.safe_load((OVERLAY / "kustomization.yaml").read_text())["patches"]
    lines = "\n".join(patch["patch"] for patch in patches)
    return next(word for word in lines.split() if word.startswith("--drivers="))


@pytest.fixture(scope="module")
async def named(binaries: Binaries) -> AsyncIterator[Installation]:
    """Install the overlay on a node with H100 and one with A100."""
    nodes = [h100("h100-a"), SimulatedNode("a100-a", {"cards": [A100]})]
    async with (
        ControlPlane(binaries=binaries) as cluster,
        Installation(
            cluster,
            nodes,
            operator_options=(*LEASE, drivers()),
            agent_options=("--driver-gpu", DRIVER),
            manifests=OVERLAY,
        ) as installed,
    ):
        await serving(installed)
        yield installed


@pytest.fixture
async def named_team(named: Installation) -> AsyncIterator[Tenant]:
    """Make a namespace in which admission adds our gate."""
    tenant = Tenant(named, await named.cluster.make_namespace("named", MANAGED))
    yield tenant
    await tenant.empty()
    await named.cluster.drop_namespace(tenant.namespace)


def config(name: str, **sharing: Any) -> Json:
    """Return what NVIDIA's kind says about one request."""
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": sharing}
    return {"requests": [name], "opaque": {"driver": DRIVER, "parameters": parameters}}


def users(name: str, *requests: str) -> Json:
    """Return a pod that uses a claim, with two containers for each of these requests."""
    made = pod(name, name)
    (container,) = made["spec"]["containers"]
    made["spec"]["containers"] = [
        {
            **container,
            "name": f"{each}-{number}",
            "resources": {"claims": [{"name": name, "request": each}]},
        }
        for each in requests
        for number in range(2)
    ]
    return made


TERMS = {"defaultActiveThreadPercentage": 50, "defaultPinnedDeviceMemoryLimit": "10Gi"}


async def test_time_slices_and_mps_are_set_up_as_nvidias_claims_ask(
    named: Installation, named_team: Tenant
) -> None:
    """As gpu-test5: one GPU of a claim with long turns, one with a daemon and its limits; and gpu-test-mps: one with a daemon."""
    wanted = claim("both", request(GPU, name="ts-gpu"), request(GPU, name="mps-gpu"))
    wanted["spec"]["devices"]["config"] = [
        config("ts-gpu", strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"}),
        config("mps-gpu", strategy="MPS", mpsConfig=TERMS),
    ]
    alone = claim("alone", request(GPU, name="mps-gpu"))
    alone["spec"]["devices"]["config"] = [config("mps-gpu", strategy="MPS", mpsConfig=TERMS)]
    for each, requests in ((wanted, ("ts-gpu", "mps-gpu")), (alone, ("mps-gpu",))):
        await named_team.make(each)
        await named_team.make(users(each["metadata"]["name"], *requests))
    await named_team.running("both", "alone")
    results = [
        (row["pool"], row["device"], row["request"])
        for name in ("both", "alone")
        for row in (await named_team.claim(name))["status"]["allocation"]["devices"]["results"]
    ]
    state = {node: named.state(node).get("sharing", {}) for node in named.nodes}
    for node, device, asked in results:
        assert (state[node].get("timeSlices", {}).get(device) == 3) == (asked == "ts-gpu")
        assert bool(state[node].get("exclusive", {}).get(device)) == (asked == "mps-gpu")
    daemons = [daemon for found in state.values() for daemon in found.get("daemons", {}).values()]
    assert len(daemons) == 2
    for daemon in daemons:
        assert "set_default_active_thread_percentage 50" in daemon["commands"]
        assert [line for line in daemon["commands"] if line.endswith(" 10240M")]


async def test_a_selector_by_an_attribute_that_no_driver_publishes_is_refused_with_its_name(
    named_team: Tenant,
) -> None:
    """As gpu-test6, which chooses A100 by `index`: neither driver has it."""
    model = f"device.attributes['{DRIVER}'].productName.lowerAscii().matches('^.*a100.*$')"
    await named_team.make(
        claim("indexed", request(GPU, f"{model} && device.attributes['{DRIVER}'].index == 0"))
    )
    await named_team.make(pod("indexed", "indexed"))
    await named_team.event("indexed", "NotAllocated", "index")
    await named_team.make(claim("a100", request(GPU, model)))
    await named_team.make(pod("a100", "a100"))
    await named_team.running("a100")
    assert devices(await named_team.claim("a100"))[0].startswith("a100-a/")


@pytest.mark.parametrize("missing", ["vfio.gpu.nvidia.com", "imex.nvidia.com"])
async def test_a_class_that_is_not_offered_holds_no_gpu_of_its_pod(named_team: Tenant, missing: str) -> None:
    """As gpu-test-vfiopci and imex-test1: the Event names the class, and the pod's other claim gets nothing meanwhile."""
    await named_team.make(claim("offered", request(GPU)))
    await named_team.make(claim("missing", request(missing)))
    await named_team.make(pod("waits", "offered", "missing"))
    await named_team.event("missing", "UnknownClass", missing)
    await named_team.make(claim("later", request(GPU)))
    await named_team.make(pod("later", "later"))
    await named_team.running("later")
    assert devices(await named_team.claim("offered")) == []


async def test_whole_gpus_are_given_as_nvidias_first_manifests_ask(named_team: Tenant) -> None:
    """As gpu-test1, a GPU for each of two pods; gpu-test2, one for two containers; gpu-test3, one for two pods."""
    for name in ("first", "second", "containers", "pods"):
        await named_team.make(claim(name, request(GPU, name="gpu")))
    await named_team.make(pod("first", "first"))
    await named_team.make(pod("second", "second"))
    await named_team.make(users("containers", "gpu"))
    for number in range(2):
        await named_team.make(pod(f"pods-{number}", "pods"))
    await named_team.running("first", "second", "containers", "pods-0", "pods-1")
    found = [devices(await named_team.claim(name)) for name in ("first", "second", "containers", "pods")]
    assert len({device for (device,) in found}) == len(found)


async def test_a_profile_that_no_gpu_has_is_refused_with_the_reason(named_team: Tenant) -> None:
    """As gpu-test4: four parts of one GPU, of profiles of an A100 with 40 GB, which is on none of the nodes."""
    of = f"device.attributes['{DRIVER}']"
    wanted = claim(
        "parts", *(request("mig.nvidia.com", f"{of}.profile == '1g.5gb'", name=f"mig-{n}") for n in range(2))
    )
    wanted["spec"]["devices"]["constraints"] = [{"requests": [], "matchAttribute": f"{DRIVER}/parentUUID"}]
    await named_team.make(wanted)
    await named_team.make(pod("parts", "parts"))
    await named_team.event("parts", "NotAllocated", "0 passed request selector")


async def test_extended_resources_are_left_to_kube_scheduler_which_has_none(named_team: Tenant) -> None:
    """As extended-resources: our devices stand for none, and kube-scheduler is kept from them."""
    asks = pod("extended")
    limits = {"nvidia.com/gpu": "1"}
    asks["spec"]["containers"][0]["resources"] = {"requests": limits, "limits": limits}
    await named_team.make(asks)
    await named_team.event("extended", "FailedScheduling", "nvidia.com/gpu")
    assert (await named_team.pod("extended"))["status"]["phase"] == "Pending"
