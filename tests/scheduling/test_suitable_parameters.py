"""Parameters for our drivers, and the devices that they are for: what no device of the claim can keep is refused, never ignored."""

from typing import Any

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLASSES
from apportion.scheduling.demands.waiting import RefusedConfiguration
from apportion.scheduling.demands.waitingqueue import waiting_demands
from tests.observedcluster import GPU, Json, ObservedCluster, request
from tests.scheduling.podgroups import member
from tests.scheduling.queued import world

MPS = {"sharing": {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 30}}}
TYPE = f'device.attributes["{GPU}"].type'
AT = "spec.devices.config[{}].opaque.parameters.kind: "
FOR_WHOLE = "GpuConfig is for devices of type gpu, and request {} would get one of type mig"
FOR_PARTS = "MigDeviceConfig is for devices of type mig, and request {} would get one of type gpu"


def of_kind(kind: str, driver: str, *requests: str, **body: Any) -> Json:
    """Return a `config` entry with parameters of a kind."""
    own = {"apiVersion": "config.apportion.dev/v1alpha1", "kind": kind, **body}
    return {"requests": [*requests], "opaque": {"driver": driver, "parameters": own}}


@pytest.mark.parametrize(
    ("kind", "driver", "reason"),
    [
        ("GpuConfig", "npu.apportion.dev", "GpuConfig is for GPUs, not for a npu"),
        ("MigDeviceConfig", "npu.apportion.dev", "MigDeviceConfig is for GPUs, not for a npu"),
        ("NpuConfig", GPU, "NpuConfig is for NPUs, not for a gpu"),
        ("GpuConfig", "rdma.apportion.dev", "GpuConfig is for GPUs, not for a nic"),
        ("NetworkConfig", GPU, "NetworkConfig is for NICs, not for a gpu"),
    ],
)
def test_parameters_for_cards_of_another_kind_get_no_devices(kind: str, driver: str, reason: str) -> None:
    """The agent would refuse them when the pod has its node: the card would be taken, and the pod never start."""
    made = world()
    made.claim("c", config=[of_kind(kind, driver)])
    made.pod("p", "c", gates=[GATE])
    demands, (found,) = waiting_demands(made.snapshot)
    assert demands == []
    assert isinstance(found, RefusedConfiguration)
    assert str(found.error) == f"spec.devices.config[0].opaque.parameters.kind: {reason}"


@pytest.mark.parametrize(
    ("requests", "named", "refused"),
    [
        ([request("gpu")], [], "gpu"),
        ([request("gpu")], ["gpu"], "gpu"),
        ([request("gpu", count=2)], ["gpu"], ""),
        ([request("gpu", name="one"), request("gpu", name="ring", count=2)], [], ""),
        ([request("gpu", name="one"), request("gpu", name="ring", count=2)], ["one", "ring"], "one"),
        ([request("gpu", name="one"), request("gpu", name="two")], [], "one"),
        ([{"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}], [], ""),
        (
            [
                {
                    "name": "any",
                    "firstAvailable": [
                        {"name": "ring", "deviceClassName": "gpu", "count": 4},
                        {"name": "one", "deviceClassName": "gpu"},
                    ],
                }
            ],
            ["any"],
            "",
        ),
    ],
)
def test_a_rank_table_of_a_single_npu_is_refused(
    requests: list[Json], named: list[str], refused: str
) -> None:
    """One NPU has none, so the pod would never start; where some request may get several it depends on the decision."""
    made = world()
    made.claim("c", *requests, config=[of_kind("NpuConfig", "npu.apportion.dev", *named, rankTable=True)])
    made.pod("p", "c", gates=[GATE])
    demands, unservable = waiting_demands(made.snapshot)
    assert [str(each.error) for each in unservable if isinstance(each, RefusedConfiguration)] == (
        [
            f"spec.devices.config[0].opaque.parameters.rankTable: request {refused} has no rank table: it asks for one NPU"
        ]
        if refused
        else []
    )
    assert len(demands) == (0 if refused else 1)


def card(*types: str, driver: str = GPU) -> ObservedCluster:
    """Return a node with a device of each of these types, and classes for whole GPUs, MIG devices, and any of a driver."""
    made = ObservedCluster()
    made.node("n", cpu="64")
    devices = [
        {"name": f"{type_}-{number}", "attributes": {"type": {"string": type_}}}
        for number, type_ in enumerate(types)
    ]
    made.slice("n", "n-devices", {"devices": devices, "driver": driver}, 1)
    made.device_class("whole", f"device.driver == '{GPU}' && {TYPE} == 'gpu'")
    made.device_class("mig", f"device.driver == '{GPU}' && {TYPE} == 'mig'")
    made.device_class("any")
    return made


def serve(
    made: ObservedCluster, client: Client, *requests: Json, config: list[Json], group: bool = False
) -> tuple[list[str], list[str]]:
    """Let a cycle decide about a claim; return the devices that it gets, and what its Event and that of its pod say."""
    made.claim("c", *requests, config=config)
    if group:
        member(made, "p", "c", least="1")
    else:
        made.pod("p", "c", gates=[GATE])
    made.cycle(client).once()
    claim = made.snapshot.claim("team", "c")
    found = made.snapshot.allocation(claim) if claim is not None else None
    said = [text for name, reason, text in made.messages if reason == "RefusedConfiguration" and name in "cp"]
    return [result.device.name for result in found.results] if found is not None else [], said


@pytest.mark.parametrize(
    ("wanted", "kind", "named", "reason"),
    [
        ("mig", "GpuConfig", ["mig"], FOR_WHOLE),
        ("mig", "GpuConfig", [], FOR_WHOLE),
        ("whole", "MigDeviceConfig", ["whole"], FOR_PARTS),
        ("whole", "MigDeviceConfig", [], FOR_PARTS),
    ],
)
@pytest.mark.parametrize("group", [False, True])
async def test_parameters_that_suit_no_device_of_a_claim_are_refused_with_their_field(
    client: Client, wanted: str, kind: str, named: list[str], reason: str, *, group: bool
) -> None:
    """Its pods would run without the limit that it asks for: in an allocation an entry that names all requests names none."""
    made = card("gpu", "mig")
    found, said = serve(
        made, client, request(wanted), config=[of_kind(kind, GPU, *named, **MPS)], group=group
    )
    assert found == []
    assert said == [f"claim team/c: {AT.format(0)}{reason.format(wanted)}"] * 2


@pytest.mark.parametrize(
    ("requests", "config", "devices"),
    [
        ([request("whole")], [of_kind("GpuConfig", GPU, **MPS)], ["gpu-0"]),
        ([request("whole"), request("mig")], [of_kind("GpuConfig", GPU, **MPS)], ["gpu-0", "mig-1"]),
        ([request("mig")], [of_kind("GpuConfig", GPU)], ["mig-1"]),
        ([request("mig")], [of_kind("GpuConfig", GPU, **MPS), of_kind("MigDeviceConfig", GPU, "mig")], ["mig-1"]),
        ([request("whole")], [of_kind("MigDeviceConfig", GPU, **MPS), of_kind("GpuConfig", GPU)], ["gpu-0"]),
    ],
    ids=["suits", "one of two requests", "asks for nothing", "overridden", "one of two types"],
)  # fmt: skip
async def test_parameters_that_are_for_some_devices_only_hinder_no_claim(
    client: Client, requests: list[Json], config: list[Json], devices: list[str]
) -> None:
    """Without requests an entry is about those that it suits; what asks for nothing, or is overridden, is not missed."""
    assert serve(card("gpu", "mig"), client, *requests, config=config) == (devices, [])


@pytest.mark.parametrize("first", ["gpu", "mig"])
@pytest.mark.parametrize("group", [False, True])
async def test_a_claim_gets_the_device_that_its_parameters_are_for(
    client: Client, first: str, *, group: bool
) -> None:
    """Of what its class selects, and of its alternatives, whichever would be chosen first."""
    made = card(*dict.fromkeys([first, "gpu", "mig"]))
    made.policy(strategy="FirstFit", classes=["any"])
    found, said = serve(made, client, request("any"), config=[of_kind("GpuConfig", GPU, **MPS)], group=group)
    assert [name[:3] for name in found] == ["gpu"]
    assert said == []
    made = card("gpu", "mig")
    alternatives = [{"name": name, "deviceClassName": name} for name in ("mig", "whole")]
    wanted = {"name": "r", "firstAvailable": alternatives}
    found, said = serve(made, client, wanted, config=[of_kind("GpuConfig", GPU, "r", **MPS)], group=group)
    assert (found, said) == (["gpu-0"], [])


@pytest.mark.parametrize(
    ("requests", "named"),
    [([request("whole"), request("mig")], ["whole", "mig"]), ([request("mig"), request("mig", name="more")], [])],
    ids=["named for both", "for neither"],
)  # fmt: skip
async def test_of_several_requests_none_that_an_entry_is_about_goes_without_what_it_asks_for(
    client: Client, requests: list[Json], named: list[str]
) -> None:
    """Where it names none it is enough that one gets it; one that it names may not be left out."""
    config = [of_kind("GpuConfig", GPU, *named, **MPS)]
    found, said = serve(card("gpu", "mig", "mig"), client, *requests, config=config)
    assert (found, said) == ([], [f"claim team/c: {AT.format(0)}{FOR_WHOLE.format('mig')}"] * 2)


async def test_of_several_requests_the_one_that_an_entry_names_gets_what_it_suits(client: Client) -> None:
    """The others get what is there; where nothing suits, the Event names entry and request."""
    config = [of_kind("GpuConfig", GPU, "one", **MPS)]
    wanted = [request("any", name="two", expression=f"{TYPE} == 'mig'"), request("any", name="one")]
    assert serve(card("mig", "mig", "gpu"), client, *wanted, config=config) == (["mig-0", "gpu-2"], [])
    found, said = serve(card("mig", "mig"), client, *wanted, config=config)
    assert (found, said) == ([], [f"claim team/c: {AT.format(0)}{FOR_WHOLE.format('one')}"] * 2)


async def test_what_a_class_asks_for_is_judged_as_what_a_claim_does(client: Client) -> None:
    """The Event names the class."""
    made = card("mig")
    raw = made.seen[CLASSES, "", "mig"]
    made.see(CLASSES, raw | {"spec": raw["spec"] | {"config": [of_kind("GpuConfig", GPU, **MPS)]}})
    found, said = serve(made, client, request("mig"), config=[])
    assert found == []
    assert said[0].startswith(
        "claim team/c: DeviceClass mig: spec.config[0].opaque.parameters.kind: GpuConfig is for"
    )


async def test_of_what_a_class_asks_for_the_last_holds_where_requests_are_of_several_classes(
    client: Client,
) -> None:
    """In the allocation its entries name their requests then, so that the agent refuses any other device."""
    made = card("gpu", "mig", "gpu")
    made.policy(strategy="FirstFit", classes=["any", "whole"])
    raw = made.seen[CLASSES, "", "any"]
    both = [of_kind("GpuConfig", GPU, **MPS), of_kind("MigDeviceConfig", GPU, **MPS)]
    made.see(CLASSES, raw | {"spec": raw["spec"] | {"config": both}})
    assert serve(made, client, request("any"), request("whole"), config=[]) == (["mig-1", "gpu-0"], [])


async def test_each_device_of_a_single_request_is_one_that_its_parameters_are_for(client: Client) -> None:
    """One without the limit that the claim asks for would be used beside one that has it."""
    wanted, config = request("any", count=2), [of_kind("GpuConfig", GPU, **MPS)]
    assert serve(card("gpu", "mig", "gpu"), client, wanted, config=config) == (["gpu-0", "gpu-2"], [])
    found, said = serve(card("gpu", "mig"), client, wanted, config=config)
    assert (found, said) == ([], [f"claim team/c: {AT.format(0)}{FOR_WHOLE.format('any')}"] * 2)


async def test_the_other_claims_of_a_pod_have_no_event_about_what_one_asks_for_in_vain(
    client: Client,
) -> None:
    """They wait with it; the pod says for which."""
    made = card("gpu", "mig")
    made.claim("beside", request("whole"))
    made.claim("c", request("mig"), config=[of_kind("GpuConfig", GPU, **MPS)])
    made.pod("p", "c", "beside", gates=[GATE])
    made.cycle(client).once()
    assert made.places() == {}
    assert sorted(made.warned) == [("c", "RefusedConfiguration"), ("p", "RefusedConfiguration")]


@pytest.mark.parametrize("group", [False, True])
async def test_devices_that_suit_are_judged_as_those_that_did_not(client: Client, *, group: bool) -> None:
    """Shares of two GPUs under MPS suit the parameters, and no agent prepares them for one claim."""
    made = card()
    capacity = {name: {"value": "80", "requestPolicy": {"default": "20"}} for name in ("memory", "cores")}
    more = {"gpu": {"allowMultipleAllocations": True, "capacity": capacity}, "mig": {}}
    types = ("mig", "mig", "gpu", "gpu")
    devices = [
        {"name": f"{type_}-{number}", "attributes": {"type": {"string": type_}}, **more[type_]}
        for number, type_ in enumerate(types)
    ]
    made.slice("n", "n-devices", {"devices": devices}, 1)
    made.policy(strategy="FirstFit", classes=["any"])
    wanted, config = request("any", count=2), [of_kind("GpuConfig", GPU, **MPS)]
    assert serve(made, client, wanted, config=config, group=group) == ([], [])
    assert ("c", "BrokenClaim") in made.warned


@pytest.mark.parametrize(
    ("kind", "type_", "reason"),
    [
        ("NetworkConfig", "gpu", "NetworkConfig is for NICs, not for a gpu"),
        ("GpuConfig", "nic", "GpuConfig is for GPUs, not for a nic"),
        ("NpuConfig", "mig", "NpuConfig is for NPUs, not for a gpu"),
        ("GpuConfig", "fpga", "GpuConfig is for GPUs, not for a fpga"),
    ],
)
async def test_of_a_driver_with_another_name_the_devices_say_for_which_cards_it_is(
    client: Client, kind: str, type_: str, reason: str
) -> None:
    """Only its devices tell what `--drivers` names; before there are any, nothing is refused."""
    driver = "cards.example.com"
    made = card(type_, driver=driver)
    made.snapshot.drivers |= {driver}
    found, said = serve(made, client, request("any"), config=[of_kind(kind, driver)])
    assert (found, said) == ([], [f"claim team/c: {AT.format(0)}{reason}"] * 2)
    assert "ShownToAutoscalers" not in {reason for _, reason in made.warned}


async def test_devices_that_do_not_say_their_type_are_given_as_asked(client: Client) -> None:
    """Nobody can say that they do not suit."""
    made = world()
    made.node("n")
    mig = {"name": "a", "attributes": {"type": {"string": "mig"}}}
    made.slice("n", "n-devices", {"devices": [mig, {"name": "b"}]}, 1)
    made.policy(strategy="FirstFit")
    assert serve(made, client, config=[of_kind("GpuConfig", GPU, **MPS)]) == (["b"], [])
