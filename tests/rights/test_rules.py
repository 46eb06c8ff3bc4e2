"""The rights in the manifests are exactly those that the work needs.

An installation goes through every example and the rare paths; then the API server's audit log says which rule allowed
what. A right that nobody used is a right too many, unless a test proves that the work fails without it.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from apportion.agent.devices.simulated.state import StateFile
from testbed.api import Json
from testbed.audit import Request
from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.demo.fleet import fleet
from testbed.demo.show import read_examples
from testbed.errors import ApiError
from testbed.eventually import eventually
from testbed.example import View
from testbed.installation import REPOSITORY, Installation, SimulatedNode

RBAC = "/apis/rbac.authorization.k8s.io/v1"
RESOURCE = "/apis/resource.k8s.io/v1"
OWN = "/apis/apportion.dev/v1alpha1"
OPERATOR, AGENT = "apportion-operator", "apportion-agent"

Right = tuple[str, str, str]
"""API group, resource or resource/subresource, verb."""

PROVEN: dict[tuple[str, Right], str] = {
    # The API server asks for it by itself when an allocation changes, so no request names it.
    (OPERATOR, ("resource.k8s.io", "resourceclaims/binding", "patch")): (
        "tests/install/test_rights.py::test_an_allocation_needs_the_right_to_bind"
    ),
    # The same for the entries of `status.devices`.
    (AGENT, ("resource.k8s.io", "resourceclaims/driver", "associated-node:patch")): (
        "tests/agent/test_claim_status.py::test_a_claim_says_that_its_devices_are_ready"
    ),
}
"""Rights that the audit log cannot show, and the test that fails without each."""

REFUSALS: dict[tuple[str, Right], str] = {}
"""Refused requests that are as they should be, and why."""


class Paths:
    """What the installation is led through: each method is one road that needs rights of its own."""

    def __init__(self, installation: Installation, namespace: str) -> None:
        self.installation = installation
        self.cluster = installation.cluster
        self.api = installation.cluster.api
        self.namespace = namespace
        self.claims = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    async def examples(self) -> None:
        """Every example reaches its end: claims, gates, partitions, a layout with its class, a refusal."""
        examples = read_examples()
        files = [word for example in examples for word in ("-f", str(example.path))]
        await self.cluster.kubectl("apply", "-n", self.namespace, *files)

        async def left() -> dict[str, list[str]]:
            view = await View.of(self.installation, self.namespace)
            found = {each.name: each.differences(view) for each in examples}
            return {name: texts for name, texts in found.items() if texts}

        await eventually(left, lambda left: not left, within=60)

    async def a_policy(self) -> None:
        """Its status is written; what follows goes by its short times."""
        names = ["gpu.apportion.dev", "mig.apportion.dev"]
        spec = {
            "deviceClasses": {"names": names},
            "partitions": {"idleTimeout": "1s"},
            "unusedTimeout": "1s",
        }
        body = {"apiVersion": "apportion.dev/v1alpha1", "kind": "AllocationPolicy"}
        await self.api.create(
            f"{OWN}/allocationpolicies", body | {"metadata": {"name": "short"}, "spec": spec}
        )
        path = f"{OWN}/allocationpolicies/short"
        await eventually(lambda: self.api.get(path), lambda raw: raw.get("status", {}).get("managedClasses"))

    async def an_allocation_that_nobody_wants(self) -> None:
        """It is read again and given back: the pod that wanted it went before any scheduler saw it."""
        await self.api.create(self.claims, _claim("unwanted"))
        await self.api.create(self.pods, _pod("unseen", "unwanted", schedulerName="nobody"))
        await eventually(lambda: self._allocated("unwanted"))
        await self.api.delete(f"{self.pods}/unseen", grace=0)
        await eventually(lambda: self._allocated("unwanted"), lambda there: not there)

    async def a_cut_that_fails(self) -> None:
        """The allocation is cleared, and another placement tried."""
        folder = self.cluster.folder / "agents" / "h100-b"
        failures = [{"error": "Unsupported", "verb": "create", "card": "", "times": 1}]
        hardware = StateFile(folder / "simulation.yaml.state.json")
        with hardware.changing() as state:
            state["faults"]["failures"] = failures
        await self.api.create(self.claims, _claim("unlucky", profile="1g.10gb"))
        await self.api.create(
            self.pods, _pod("unlucky", "unlucky", nodeSelector={"kubernetes.io/hostname": "h100-b"})
        )

        async def overcome() -> bool:
            pod = await self.api.get(f"{self.pods}/unlucky")
            struck = hardware.read()["faults"]["failures"][0]["times"] == 0
            return struck and pod["status"]["phase"] == "Running"

        await eventually(overcome, within=30)

    async def slices_that_others_delete(self) -> None:
        """They are published again."""
        await self.api.delete_all(f"{RESOURCE}/resourceslices", fieldSelector="spec.nodeName=h100-a")
        await eventually(lambda: self._slices("h100-a"), lambda found: found > 3)

    async def a_node_that_loses_a_card(self) -> None:
        """Its agent takes back the slice of that card, and says again what it has said before of another one."""
        hardware = StateFile(self.cluster.folder / "agents" / "ascend-910b4-a" / "simulation.yaml.state.json")
        with hardware.changing() as state:
            state["faults"]["sick"] = ["npu-5"]
        await eventually(lambda: self._said("ascend-910b4-a"), lambda count: count == 1)
        before = await self._slices("ascend-910b4-a")
        await self.installation.agents["ascend-910b4-a"].stop()
        self.installation.nodes["ascend-910b4-a"] = _smaller(self.installation.nodes["ascend-910b4-a"])
        await self.installation.start_agent("ascend-910b4-a")
        await eventually(lambda: self._slices("ascend-910b4-a"), lambda found: found == before - 1, within=30)
        await eventually(lambda: self._said("ascend-910b4-a"), lambda count: count == 2)

    async def a_class_that_others_change(self) -> None:
        """The operator makes a layout's class right again, and drops it when the layout wants it no more."""
        layout = {
            "apiVersion": "apportion.dev/v1alpha1",
            "kind": "PartitionLayout",
            "metadata": {"name": "thirds"},
            "spec": {
                "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "ascend-910b4-a"}},
                "devices": [{"cel": {"expression": 'device.attributes["npu.apportion.dev"].cardId == 3'}}],
                "partitions": [{"profile": "vir05_1c_8g", "count": 1}],
            },
        }
        await self.api.create(f"{OWN}/partitionlayouts", layout)
        path = f"{RESOURCE}/deviceclasses/thirds-vir05-1c-8g"
        made = await eventually(lambda: self._found(path))
        await self.api.patch(path, {"spec": {"selectors": [{"cel": {"expression": "true"}}]}})
        await eventually(lambda: self._found(path), lambda now: now and now["spec"] == made["spec"])
        await self.api.patch(f"{OWN}/partitionlayouts/thirds", {"spec": {"deviceClasses": {"create": False}}})
        await eventually(lambda: self._found(path), lambda now: not now)

    async def a_restart(self) -> None:
        """The new operator waits for the lease, and says what was said before: Events are counted up."""
        claim = _claim("nameless")
        claim["metadata"]["annotations"] = {"apportion.dev/allocation": "Immediate"}
        claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "nobody-made-it"
        await self.api.create(self.claims, claim)
        events = f"/api/v1/namespaces/{self.namespace}/events"

        async def said() -> int:
            found, _ = await self.api.items(events, fieldSelector="involvedObject.name=nameless")
            return max((each.get("count", 1) for each in found), default=0)

        await eventually(said, lambda count: count == 1)
        self.installation.operators[0].kill()
        await eventually(said, lambda count: count > 1, within=40)

    async def the_end(self) -> None:
        """Everything is deleted: own finalizers go, partitions and layouts are removed from the hardware."""
        await self.api.delete_all(self.pods)
        await self.api.delete_all(self.claims)
        await self.api.delete_all(f"{OWN}/partitionlayouts")

        async def left() -> int:
            claims, _ = await self.api.items(self.claims)
            partitions, _ = await self.api.items(f"{OWN}/partitions")
            mig = [each for each in partitions if each["spec"]["driver"].startswith("gpu")]
            return len(claims) + len(mig)

        await eventually(left, lambda count: count == 0, within=40)

    async def _said(self, node: str) -> int:
        found, _ = await self.api.items("/api/v1/events", fieldSelector=f"involvedObject.name={node}")
        return max((each["count"] for each in found if each["reason"] == "CardSick"), default=0)

    async def _allocated(self, name: str) -> bool:
        claim = await self.api.get(f"{self.claims}/{name}")
        return "allocation" in claim.get("status", {})

    async def _slices(self, node: str) -> int:
        found, _ = await self.api.items(f"{RESOURCE}/resourceslices", fieldSelector=f"spec.nodeName={node}")
        return len(found)

    async def _found(self, path: str) -> Json:
        try:
            return await self.api.get(path)
        except ApiError as error:
            if error.status == 404:
                return {}
            raise


def _claim(name: str, *, profile: str = "") -> Json:
    request: Json = {
        "name": "r",
        "exactly": {"deviceClassName": "mig.apportion.dev" if profile else "gpu.apportion.dev"},
    }
    if profile:
        expression = f'device.attributes["gpu.apportion.dev"].profile == "{profile}"'
        request["exactly"]["selectors"] = [{"cel": {"expression": expression}}]
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def _pod(name: str, claim: str, **spec: Any) -> Json:
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "r"}]}}
    own = {"resourceClaims": [{"name": "r", "resourceClaimName": claim}], "containers": [container]}
    return {"metadata": {"name": name}, "spec": own | spec}


def _smaller(node: SimulatedNode) -> SimulatedNode:
    """Return the node without its last card."""
    (cards,) = node.simulation["cards"]
    return replace(node, simulation={"cards": [cards | {"count": cards["count"] - 1}]})


@pytest.fixture(scope="module")
async def asked(binaries: Binaries) -> AsyncIterator[tuple[ControlPlane, list[Request]]]:
    """Lead one installation along every path; gives its control plane and what was asked of it."""
    async with ControlPlane(binaries=binaries) as cluster:
        async with Installation(cluster, fleet(), operator_options=("--lease-duration", "9")) as installation:
            namespace = await cluster.make_namespace("rights", {"apportion.dev/managed": "true"})
            paths = Paths(installation, namespace)
            await paths.examples()
            await paths.a_policy()
            await asyncio.gather(
                paths.an_allocation_that_nobody_wants(),
                paths.a_class_that_others_change(),
                paths.a_node_that_loses_a_card(),
                paths.slices_that_others_delete(),
                paths.a_cut_that_fails(),
            )
            await paths.a_restart()
            await paths.the_end()
        # Watches enter the log when they end.
        yield cluster, cluster.audited()


def rights(rules: list[Json]) -> Iterator[Right]:
    """Yield what the rules of a role grant, one by one."""
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield group, resource, verb


def right(request: Request) -> Right:
    """Return the right that a request needs."""
    resource = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
    return request.group, resource, request.verb


async def granted(cluster: ControlPlane, account: str) -> set[Right]:
    """Return everything that the manifests grant to an account."""
    found = set(rights((await cluster.api.get(f"{RBAC}/clusterroles/{account}"))["rules"]))
    roles, _ = await cluster.api.items(f"{RBAC}/namespaces/apportion-system/roles")
    for role in roles:
        if role["metadata"]["name"] == account:
            found |= set(rights(role["rules"]))
    return found


def of(asked: list[Request], account: str) -> list[Request]:
    """Return the requests of an account."""
    return [each for each in asked if each.user == f"system:serviceaccount:apportion-system:{account}"]


@pytest.mark.slow
@pytest.mark.timeout(240)
class TestRules:
    @pytest.mark.parametrize("account", [OPERATOR, AGENT])
    async def test_every_right_is_used_or_proven_necessary(
        self, asked: tuple[ControlPlane, list[Request]], account: str
    ) -> None:
        """Whoever adds a rule adds the path that needs it."""
        cluster, requests = asked
        used = {right(each) for each in of(requests, account) if each.decision == "allow" and each.code < 300}
        proven = {what for who, what in PROVEN if who == account}
        everything = await granted(cluster, account)

        assert len(everything) > 10
        assert sorted(everything - used - proven) == []
        assert sorted(proven & used) == [], "the audit log shows it by now"

    @pytest.mark.parametrize("account", [OPERATOR, AGENT])
    async def test_nothing_is_refused_and_nothing_leans_on_rules_of_others(
        self, asked: tuple[ControlPlane, list[Request]], account: str
    ) -> None:
        """What the code does and the manifests forget would show here."""
        mine = of(asked[1], account)
        refused = {right(each) for each in mine if each.decision != "allow" or each.code == 403}
        foreign: dict[Right, set[str]] = defaultdict(set)
        for each in mine:
            if f'"{account}' not in each.rule:
                foreign[right(each)].add(each.rule)

        assert len(mine) > 100
        assert sorted(what for what in refused if (account, what) not in REFUSALS) == []
        assert dict(foreign) == {}

    def test_every_proof_exists(self) -> None:
        """A test that was renamed or removed proves nothing."""
        for proof in PROVEN.values():
            file, _, name = proof.partition("::")
            assert f"def {name}(" in (REPOSITORY / file).read_text()
