"""Claims and classes with parameters for drivers, where the operator decides what waits."""

from typing import Any

import pytest
from hypothesis import given

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, CLASSES, SLICES
from apportion.scheduling.demands.waiting import RefusedConfiguration
from apportion.scheduling.demands.waitingqueue import WaitingQueue, waiting_demands
from tests.drawnparameters import PARAMETERS, VALUES
from tests.observedcluster import GPU, Json, ObservedCluster, request
from tests.scheduling.podgroups import member
from tests.scheduling.queued import names, world


def parameters(driver: str = GPU, **sharing: Any) -> Json:
    """Return a `config` entry for whole GPUs."""
    body = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": sharing}
    return {"opaque": {"driver": driver, "parameters": body}}


def test_a_claim_that_no_agent_would_set_up_gets_no_devices() -> None:
    """Its pod's other claims get none either; the others of the queue are served."""
    made = world()
    made.claim("mps", config=[parameters(strategy="Exclusive")])
    made.claim("beside")
    made.claim("fine", config=[parameters(strategy="MPS")])
    made.pod("p", "mps", "beside", gates=[GATE])
    made.pod("q", "fine", gates=[GATE])
    assert names(made) == [["fine"]]
    _, (found,) = waiting_demands(made.snapshot)
    assert isinstance(found, RefusedConfiguration)
    assert found.claim.name == "mps"
    assert found.error.field == "spec.devices.config[0].opaque.parameters.sharing.strategy"
    assert [pod.name for pod in found.pods] == ["p"]


def test_parameters_for_a_driver_that_is_mistyped_are_refused() -> None:
    """Nobody would honour them. What is for other drivers, such as one that has devices, is theirs to judge."""
    for driver in ("gpu.nvidia.com", "gpu.aportion.example.com", "gpu.apportion.de"):
        made = world()
        device = {"devices": [{"name": "d"}]}
        spec = {"driver": "gpu.apportion.de", "nodeName": "n1", "pool": {"name": "other"}, **device}
        if driver == "gpu.apportion.de":
            made.see(SLICES, {"metadata": {"name": "other"}, "spec": spec})
        made.claim("c", config=[parameters(driver, strategy="MPS")])
        made.pod("p", "c", gates=[GATE])
        assert names(made) == [["c"]], driver
    made = world()
    made.claim("c", config=[parameters(strategy="MPS"), parameters("gpu.aportion.dev", strategy="MPS")])
    made.pod("p", "c", gates=[GATE])
    _, (found,) = waiting_demands(made.snapshot)
    assert isinstance(found, RefusedConfiguration)
    assert str(found.error) == (
        "spec.devices.config[1].opaque.driver: gpu.aportion.dev has no devices; did you mean gpu.apportion.dev?"
    )


@pytest.mark.slow
@given(PARAMETERS | VALUES)
def test_whatever_somebody_writes_is_served_or_refused_with_its_field(parameters: Any) -> None:
    """Nobody else's claim waits for it, and no text makes the queue fail."""
    made = world()
    made.claim("drawn", config=[{"opaque": {"driver": GPU, "parameters": parameters}}])
    made.claim("fine")
    made.pod("p", "drawn", gates=[GATE])
    made.pod("q", "fine", gates=[GATE])
    demands, refused = waiting_demands(made.snapshot)
    served = {claim.name for demand in demands for claim in demand.claims}
    assert "fine" in served
    if "drawn" not in served:
        (found,) = refused
        assert isinstance(found, RefusedConfiguration)
        assert found.error.field.startswith("spec.devices.config[0].opaque.parameters")
        assert found.error.reason


async def test_claim_and_pod_say_what_is_refused(client: Client) -> None:
    """An Event with field and reason on both: the pod is where its owner looks."""
    made = world()
    made.claim("mps", config=[parameters(strategy="Exclusive")])
    made.pod("p", "mps", gates=[GATE])
    made.cycle(client).once()
    assert sorted(made.warned) == [("mps", "RefusedConfiguration"), ("p", "RefusedConfiguration")]
    assert all("config[0].opaque.parameters.sharing.strategy" in text for *_, text in made.messages)


def test_parameters_for_other_drivers_are_left_to_them() -> None:
    """We allocate for drivers of others, too, and know nothing of their parameters."""
    made = world()
    made.claim("theirs", config=[parameters("gpu.example.com", strategy="Exclusive")])
    made.pod("p", "theirs", gates=[GATE])
    assert names(made) == [["theirs"]]


def test_a_class_whose_parameters_are_refused_holds_its_claims_until_it_is_mended() -> None:
    """The queue follows the class, and names it."""
    made = ObservedCluster()
    labels = {"apportion.dev/managed": "true"}
    raw = {
        "metadata": {"name": "gpu", "labels": labels},
        "spec": {"config": [parameters(strategy="Exclusive")]},
    }
    made.see(CLASSES, raw)
    made.claim("c")
    made.pod("p", "c", gates=[GATE])
    queue = WaitingQueue(made.snapshot)
    demands, (found,) = queue.demands()
    assert demands == []
    assert isinstance(found, RefusedConfiguration)
    assert found.error.field.startswith("DeviceClass gpu: spec.config[0].opaque.parameters")
    made.see(CLASSES, raw | {"spec": {}})
    assert [demand.key for demand in queue.demands()[0]] == ["uid-team-resourceclaims-c"]


@pytest.mark.parametrize(
    ("own", "served"),
    [
        ([parameters(strategy="MPS")], True),
        ([parameters(strategy="MPS") | {"requests": ["one", "two"]}], True),
        ([parameters(strategy="MPS") | {"requests": ["one"]}], False),
        ([parameters("gpu.example.com", strategy="MPS")], False),
        ([parameters(strategy="MPS"), parameters(strategy="Exclusive") | {"requests": ["two"]}], False),
        ([parameters(strategy="Exclusive") | {"requests": ["two"]}, parameters(strategy="MPS")], True),
        ([], False),
    ],
)
def test_what_a_claim_overrides_of_its_class_holds_it_not(own: list[Json], served: bool) -> None:  # noqa: FBT001 - drawn
    """As long as something of it holds for one of its requests, the class's parameters are refused."""
    made = ObservedCluster()
    raw = {
        "metadata": {"name": "gpu", "labels": {"apportion.dev/managed": "true"}},
        "spec": {"config": [parameters(strategy="Exclusive")]},
    }
    made.see(CLASSES, raw)
    made.claim("c", request("gpu", name="one"), request("gpu", name="two"), config=own)
    made.pod("p", "c", gates=[GATE])
    demands, refused = waiting_demands(made.snapshot)
    assert (len(demands), len(refused)) == ((1, 0) if served else (0, 1))


def test_a_claim_that_overrides_its_class_need_not_have_a_virtual_function() -> None:
    """The selectors follow what holds, as the parameters do."""
    driver = "rdma.apportion.dev"
    config = {"apiVersion": "config.apportion.dev/v1alpha1", "kind": "NetworkConfig"}
    made = ObservedCluster()
    raw = {
        "metadata": {"name": "gpu", "labels": {"apportion.dev/managed": "true"}},
        "spec": {
            "config": [
                {"opaque": {"driver": driver, "parameters": config | {"virtualFunction": {"vlan": 3}}}}
            ]
        },
    }
    made.see(CLASSES, raw)
    made.claim("plain")
    made.claim("over", config=[{"opaque": {"driver": driver, "parameters": config}}])
    for name in ("plain", "over"):
        made.pod(name, name, gates=[GATE])
    demands, _ = waiting_demands(made.snapshot)
    texts = {
        demand.claims[0].name: " ".join(demand.asked[0].slots[0].alternatives[0].selectors)
        for demand in demands
    }
    assert "virtualFunction" in texts["plain"]
    assert "networkDevice" in texts["over"]
    assert "virtualFunction" not in texts["over"]


def test_a_pod_waits_for_the_claim_beside_only_as_long_as_one_is_refused() -> None:
    """The refused claim is made anew under its name, without parameters: both are one demand then."""
    made = world()
    refused = made.claim("mps", config=[parameters(strategy="Exclusive")], uid="old")
    made.claim("beside")
    made.pod("p", "mps", "beside", gates=[GATE])
    queue = WaitingQueue(made.snapshot)
    assert queue.demands()[0] == []
    made.see(CLAIMS, refused, "DELETED")
    made.claim("mps", uid="new")
    (demand,), unservable = queue.demands()
    assert sorted(claim.name for claim in demand.claims) == ["beside", "mps"]
    assert unservable == []


def shared_gpus(*, cores: bool) -> ObservedCluster:
    """Return a node with two GPUs that serve several claims each: by MPS, which has `cores`, or in turns."""
    made = world()
    made.node("a")
    capacity = {"memory": {"value": "80Gi", "requestPolicy": {"default": "20Gi"}}}
    if cores:
        capacity["cores"] = {"value": "100", "requestPolicy": {"default": "25"}}
    gpus = [
        {"name": f"gpu-{n}", "allowMultipleAllocations": True, "capacity": capacity, "attributes": {}}
        for n in range(2)
    ]
    made.slice("a", "a-devices", {"devices": gpus}, 1)
    return made


@pytest.mark.parametrize("group", [False, True])
async def test_shares_of_two_gpus_under_mps_are_not_given_to_one_claim(
    client: Client, *, group: bool
) -> None:
    """No agent would prepare it; the Event names the GPUs and says what to ask for. Other claims are served."""
    made = shared_gpus(cores=True)
    made.claim("both", request("gpu", count=2, capacity={"requests": {"memory": "60Gi"}}))
    if group:
        member(made, "both", "both", least="1")
    else:
        made.pod("both", "both", gates=[GATE])
    made.claim("one")
    made.pod("one", "one", gates=[GATE])
    made.cycle(client).once()
    assert made.places() == {"one": "a"}
    text = next(text for name, _, text in made.messages if name == "both")
    assert "shares of gpu-0 and gpu-1 on node a" in text
    assert "!device.allowMultipleAllocations" in text


@pytest.mark.parametrize("group", [False, True])
async def test_a_claim_for_two_gpus_goes_past_shares_that_it_cannot_have(
    client: Client, *, group: bool
) -> None:
    """Where other GPUs are there that nobody shares, it gets these, also when the shares would be chosen before them."""
    made = shared_gpus(cores=True)
    made.policy(strategy="FirstFit")
    made.node("b")
    whole = [{"name": f"whole-{n}", "capacity": {"memory": {"value": "80Gi"}}} for n in range(8)]
    made.slice("b", "b-devices", {"devices": whole}, 1)
    made.claim("both", request("gpu", count=2, capacity={"requests": {"memory": "60Gi"}}))
    if group:
        member(made, "both", "both", least="1")
    else:
        made.pod("both", "both", gates=[GATE])
    made.cycle(client).once()
    assert made.places() == {"both": "b"}


async def test_shares_of_two_gpus_that_take_turns_are_given_to_one_claim(client: Client) -> None:
    """They need no daemon."""
    made = shared_gpus(cores=False)
    made.claim("both", request("gpu", count=2, capacity={"requests": {"memory": "60Gi"}}))
    made.pod("both", "both", gates=[GATE])
    made.cycle(client).once()
    assert made.places() == {"both": "a"}


@pytest.mark.parametrize("beside", [0, 1, 2], ids=["alone", "beside a share", "beside shares"])
async def test_a_monitor_of_two_gpus_under_mps_is_given_both(silent: Client, beside: int) -> None:
    """It looks at them with admin access, and needs no daemon; shares of both that the claim itself would get are refused as ever."""
    made = shared_gpus(cores=True)
    monitor = request("gpu", count=2, adminAccess=True)
    users = [request("gpu", name="own", count=beside, capacity={"requests": {"memory": "60Gi"}})]
    made.claim("both", monitor, *(users if beside else []))
    made.pod("both", "both", gates=[GATE])
    made.cycle(silent).once()
    assert made.places() == ({} if beside == 2 else {"both": "a"})
