"""Names in an AcceleratorQuota that stand for nothing: conditions and an Event say so, and the quota is followed all the same."""

from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLASSES, QUOTAS, SLICES
from apportion.scheduling.quota.status import quota_status
from apportion.scheduling.quota.statuses import QuotaStatuses
from testbed.cycle import now
from tests.observedcluster import GPU, ObservedCluster
from tests.quota.tenants import cluster, namespace, quota, wait

Json = dict[str, Any]
Said = tuple[str, str, str]
"""Status, reason and message of a condition."""


class Tenant:
    """A namespace `a`, and nodes with 8 H100, a card that can be cut, and an A30 with memory."""

    def __init__(self, client: Client) -> None:
        self.world: ObservedCluster = cluster(8, "a")
        self.world.device_class("mig", 'device.attributes["gpu.apportion.dev"].type == "mig"')
        self.world.node("n2")
        self.world.card("n2")
        self.world.node("n3")
        memory = {"memory": {"value": "24Gi"}}
        device = {"name": "gpu-0", "attributes": {"productName": {"string": "A30"}}, "capacity": memory}
        self.world.slice("n3", "n3-devices", {"devices": [device]}, 1)
        self.cycle = self.world.cycle(client)

    def status(self, name: str = "a") -> Json:
        """Return the status of a quota, as it is to be written."""
        quotas = self.cycle.quotas
        quotas.charging.follow()
        for _ in quotas.total():
            pass
        [use] = [each for each in quotas.charging.usage if each.name == name]
        return quota_status(use, [], quotas.totals, self.world.snapshot, now())

    def said(self, condition: str = "Resolved", name: str = "a") -> Said:
        """Return a condition of a quota; without text: it has none of this type."""
        found = {each["type"]: each for each in self.status(name)["conditions"]}.get(condition, {})
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")


VALID = ("True", "Valid", "")
FLAWS: dict[str, tuple[Json, str]] = {
    "profile": (
        {"profile": "1g.10bg"},
        "spec.resources[1].profile: no node offers a device with profile 1g.10bg; did you mean 1g.10gb?",
    ),
    "profile of another make": (
        {"profile": "vir05_1c_16g"},
        "spec.resources[1].profile: no node offers a device with profile vir05_1c_16g",
    ),
    "model": (
        {"model": "h10"},
        "spec.resources[1].model: no node offers a device with model h10; did you mean h100?",
    ),
    "capacity of every driver": (
        {"capacity": "memry"},
        "spec.resources[1].capacity: no node offers a device with capacity memry; did you mean memory?",
    ),
    "capacity of one driver": (
        {"capacity": f"{GPU}/memori"},
        f"spec.resources[1].capacity: no node offers a device with capacity {GPU}/memori; did you mean {GPU}/memory?",
    ),
    "two names of nothing": (
        {"profile": "1g.10bg", "model": "a300"},
        (
            "spec.resources[1].profile: no node offers a device with profile 1g.10bg; did you mean 1g.10gb?"
            "; spec.resources[1].model: no node offers a device with model a300"
        ),
    ),
    "names of different devices": (
        {"model": "A30", "profile": "1g.10gb"},
        "spec.resources[1]: no node offers a device with profile 1g.10gb and model A30",
    ),
    "a class and what none of its devices has": (
        {"deviceClass": "mig", "capacity": "memory"},
        "spec.resources[1]: no node offers a device of DeviceClass mig with capacity memory",
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
async def test_a_name_of_nothing_is_named_with_its_field_and_what_was_probably_meant(
    silent: Client, flaw: str
) -> None:
    """Accepted stays true, and the entry beside it is followed: a node that brings what is missing may come."""
    entry, message = FLAWS[flaw]
    made = Tenant(silent)
    quota(made.world, "a", {"name": "gpus", "deviceClass": "gpu", "limit": 1}, {"name": "r", **entry})
    assert made.said() == ("False", "NotPublished", message)
    assert made.said("Accepted") == VALID
    wait(made.world, "a", "first")
    wait(made.world, "a", "second", at=1)
    made.cycle.once()
    assert made.world.places().keys() == {"first"}


async def test_what_devices_have_is_not_named(silent: Client) -> None:
    """Counters count as capacities, with and without the driver."""
    made = Tenant(silent)
    entries = [
        {"profile": "1g.10gb", "deviceClass": "mig"},
        {"model": "A30", "capacity": "memory"},
        {"capacity": f"{GPU}/memory-slice-0"},
        {"deviceClass": "gpu"},
    ]
    quota(made.world, "a", *({"name": f"r{at}", **entry} for at, entry in enumerate(entries)))
    assert made.said() == VALID


async def test_a_class_that_does_not_exist_is_named_until_it_does(silent: Client) -> None:
    """And again when it is gone; one of which somebody else allocates the devices is another matter."""
    made = Tenant(silent)
    quota(made.world, "a", {"name": "r", "deviceClass": "gpus"})
    missing = "spec.resources[0].deviceClass: DeviceClass gpus does not exist; did you mean gpu?"
    assert made.said() == ("False", "UnknownClass", missing)
    made.world.device_class("gpus")
    assert (made.said(), made.said("Accepted")) == (VALID, VALID)
    found = made.world.device_class("gpus", team="other")
    assert made.said() == VALID
    assert made.said("Accepted")[:2] == ("False", "UnmanagedClass")
    assert "DeviceClass gpus is not managed by apportion" in made.said("Accepted")[2]
    made.world.gone(CLASSES, found)
    assert (made.said(), made.said("Accepted")) == (("False", "UnknownClass", missing), VALID)


async def test_what_is_published_is_followed(silent: Client) -> None:
    """A card that comes and goes."""
    made = Tenant(silent)
    quota(made.world, "a", {"name": "r", "model": "L4", "capacity": "cores"})
    assert made.said()[0] == "False"
    device = {"attributes": {"model": {"string": "L4"}}, "capacity": {"cores": {"value": "100"}}}
    found = made.world.slice("n4", "n4-devices", {"devices": [{"name": "gpu-0"} | device]}, 1)
    assert made.said() == VALID
    made.world.gone(SLICES, found)
    assert made.said()[0] == "False"
    for piece in [*made.world.snapshot.slices.values()]:
        made.world.gone(SLICES, {"metadata": {"uid": piece.uid, "name": piece.name}})
    names = made.world.snapshot.devices.names
    assert not names.models
    assert not names.amounts


async def test_a_selector_of_no_namespace_is_named_until_there_is_one(silent: Client) -> None:
    """Nor is it none where all of them obey an older quota."""
    made = Tenant(silent)
    quota(made.world, "a", team="b")
    assert made.said() == ("False", "NoNamespaces", "spec.namespaceSelector: it selects no namespace")
    namespace(made.world, "b", team="b")
    quota(made.world, "b")
    assert made.said(name="a") == VALID
    assert made.said(name="b") == VALID


async def test_the_only_quota_of_a_cohort_says_so_until_another_one_comes(silent: Client) -> None:
    """With the cohort that was probably meant. It is no matter of names that cannot be followed, and no Event."""
    made = Tenant(silent)
    namespace(made.world, "b", team="b")
    quota(made.world, "a", cohort="team")
    nobody = "so guarantees and weights give nobody a turn before others"
    first = f"spec.cohort: no other AcceleratorQuota is of cohort team, {nobody}"
    assert made.said("Joined") == ("False", "Alone", first)
    quota(made.world, "b", cohort="taem")
    assert made.said("Joined", "a") == ("False", "Alone", f"{first}; did you mean taem?")
    quota(made.world, "b", cohort="team")
    assert (made.said("Joined", "a"), made.said("Joined", "b")) == (VALID, VALID)
    assert (made.said(), made.said("Accepted")) == (VALID, VALID)
    quota(made.world, "a")
    assert "no other" in made.said("Joined", "b")[2]
    assert made.said("Joined", "a") == ("", "", "")
    assert made.world.messages == []


async def test_an_event_says_it_once(unanswered: Client) -> None:
    """Not again as long as the condition says the same."""
    made = Tenant(unanswered)
    found = quota(made.world, "a", {"name": "r", "profile": "1g.10bg"})
    recorder = made.world.recorder(unanswered)
    statuses = QuotaStatuses(
        unanswered, made.world.snapshot, recorder, made.cycle.quotas, fence=lambda: None, now=now
    )
    await statuses.act()
    text = FLAWS["profile"][1].replace("[1]", "[0]")
    assert made.world.messages == [("a", "Unresolved", text)]
    made.world.see(QUOTAS, found | {"status": made.status()})
    wait(made.world, "a", "large", count=99)
    made.cycle.once()
    await statuses.act()
    assert [*statuses.pending["a"]] == [None]
    assert [row for row in made.world.messages if row[1] == "Unresolved"] == [("a", "Unresolved", text)]
