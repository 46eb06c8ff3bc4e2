"""What a stolen token or a tenant cannot do: change pods, set a claim in use free, take devices past the guard."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed.api import Api, Json
from testbed.controlplane import ControlPlane
from testbed.errors import ApiError
from testbed.eventually import eventually
from tests.install.gatedobjects import CLAIM_SPEC, make_claim, make_pod
from tests.install.refusal import refused
from tests.install.supportedversions import OnDefault, OnOldest

PROTECTION = "resource.kubernetes.io/delete-protection"
RANK_TABLE = "apportion.dev/hccl-rank-table"
GUARD = "apportion.dev/guard"
GATES = [{"name": "example.com/other"}, {"name": "apportion.dev/allocation"}]
POD: Json = {
    "containers": [{"name": "main", "image": "none"}],
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
    "schedulingGates": GATES,
}
MANIFESTS = Path(__file__).parents[2] / "manifests"
BOUNDS = MANIFESTS / "base/operator-bounds.yaml"
OPTIONAL = MANIFESTS / "components/no-keyless-tolerations/policy.yaml"


@dataclass(frozen=True)
class Tenant:
    """A namespace, and connections of those who write there."""

    cluster: ControlPlane
    namespace: str
    operator: Api
    user: Api
    """May edit everything in the namespace."""

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def claims(self) -> str:
        return f"/apis/resource.k8s.io/v1/namespaces/{self.namespace}/resourceclaims"

    @property
    def templates(self) -> str:
        return f"/apis/resource.k8s.io/v1/namespaces/{self.namespace}/resourceclaimtemplates"


@pytest.fixture
async def tenant(cluster: ControlPlane, managed: str) -> AsyncIterator[Tenant]:
    """Make a user who is administrator of a namespace, and connect the operator."""
    operator = await cluster.service_account_kubeconfig("apportion-system", "apportion-operator")
    user = await cluster.service_account_kubeconfig(managed, "default")
    bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{managed}/rolebindings"
    await cluster.api.create(
        bindings,
        {
            "metadata": {"name": "admin"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": managed}],
        },
    )
    async with Api.of(operator) as as_operator, Api.of(user) as as_user:

        async def may_edit() -> bool:
            try:
                await as_user.get(bindings)
            except ApiError:
                return False
            return True

        # RBAC needs a moment to see the new binding.
        await eventually(may_edit)
        yield Tenant(cluster, managed, as_operator, as_user)


class TenantBounds:
    async def test_the_operator_removes_its_own_gate_and_nothing_else(self, tenant: Tenant) -> None:
        """Its right to patch pods would reach any field that the API server lets change."""
        pod = await make_pod(tenant.cluster, tenant.namespace, POD)
        path = f"{tenant.pods}/{pod['metadata']['name']}"
        image = [{**container, "image": "evil"} for container in pod["spec"]["containers"]]
        tolerations = [*pod["spec"]["tolerations"], {"operator": "Exists"}]
        for change in (
            {"spec": {"containers": image}},
            {"spec": {"activeDeadlineSeconds": 1}},
            {"spec": {"tolerations": tolerations}},
            {"spec": {"nodeSelector": {"a": "b"}}},
            {"metadata": {"labels": {"a": "b"}}},
            {"metadata": {"annotations": {"a": "b"}}},
            {"metadata": {"finalizers": ["example.com/mine"]}},
        ):
            with refused("changes nothing of a pod but its own scheduling gate"):
                await tenant.operator.patch(path, change)
        without_other = {"spec": {"schedulingGates": GATES[1:]}}
        with refused("changes nothing of a pod but its own scheduling gate"):
            await tenant.operator.patch(path, without_other)
        without_own = {"spec": {"schedulingGates": GATES[:1]}}
        done = await tenant.operator.patch(path, without_own)
        assert done["spec"]["schedulingGates"] == [GATES[0]]
        await tenant.user.patch(path, {"spec": {"containers": image}})

    async def test_of_a_status_the_operator_says_why_a_pod_behind_its_gate_is_not_scheduled_and_where_it_will_be(
        self, tenant: Tenant
    ) -> None:
        """And nothing that kubelet or a scheduler says."""
        pod = await make_pod(tenant.cluster, tenant.namespace, POD)
        path = f"{tenant.pods}/{pod['metadata']['name']}/status"
        [condition] = pod["status"]["conditions"]
        shown = condition | {"reason": "Unschedulable", "message": "no node has such devices"}
        for change in (
            {"status": {"phase": "Failed"}},
            {"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}},
            {"status": {"conditions": [shown | {"status": "True"}]}},
            {"status": {"conditions": [shown, {"type": "Ready", "status": "True"}]}},
            {"status": {"conditions": []}},
            {"status": {"observedGeneration": 1000}},
            {"status": {"resize": "Deferred"}},
            {"status": {"allocatedResources": {"cpu": "1"}}},
            {"metadata": {"annotations": {"a": "b"}}},
        ):
            with refused("changes nothing of a pod's status but why it is not scheduled"):
                await tenant.operator.patch(path, change)
        wanted = {"conditions": [shown], "nominatedNodeName": "n"}
        done = await tenant.operator.patch(path, {"status": wanted})
        assert {key: done["status"][key] for key in wanted} == wanted
        await tenant.user.patch(path.removesuffix("/status"), {"spec": {"schedulingGates": []}})
        with refused("changes nothing of a pod's status"):
            await tenant.operator.patch(path, {"status": {"conditions": [condition]}})
        with refused("changes nothing of a pod's status"):
            await tenant.operator.patch(path, {"status": {"nominatedNodeName": "another"}})

    async def test_the_policy_names_every_other_field_of_a_status(self, tenant: Tenant) -> None:
        """CEL cannot compare all but two: a field that a release of Kubernetes adds has to be written down."""
        served = await tenant.cluster.api.get("/openapi/v3/api/v1")
        fields = {*served["components"]["schemas"]["io.k8s.api.core.v1.PodStatus"]["properties"]}
        assert {"phase", "conditions", "nominatedNodeName"} < fields
        named = {*re.findall(r"object\.status\.\?(\w+) == oldObject\.status\.\?\1\b", BOUNDS.read_text())}
        assert fields - named == {"conditions", "nominatedNodeName"}

    async def test_the_operator_writes_a_rank_table_where_a_pod_asks_for_it_and_no_other_annotation(
        self, tenant: Tenant
    ) -> None:
        """As long as the pod waits behind our gate: what has started was read."""
        without_own = {"spec": {"schedulingGates": GATES[:1]}}
        table: Json = {"metadata": {"annotations": {RANK_TABLE: "{}"}}}
        silent = await make_pod(tenant.cluster, tenant.namespace, POD)
        with refused("changes nothing of a pod but its own scheduling gate"):
            await tenant.operator.patch(f"{tenant.pods}/{silent['metadata']['name']}", table | without_own)

        pod = await make_pod(tenant.cluster, tenant.namespace, POD)
        path = f"{tenant.pods}/{pod['metadata']['name']}"
        asks = {"apportion.dev/rank-table": "HCCL", "example.com/own": "a"}
        await tenant.user.patch(path, {"metadata": {"annotations": asks}})
        for others in ({"a": "b"}, {"example.com/own": "b"}, {"example.com/own": None}):
            both = {"metadata": {"annotations": {RANK_TABLE: "{}", **others}}}
            with refused("changes nothing of a pod but its own scheduling gate"):
                await tenant.operator.patch(path, both | without_own)
        done = await tenant.operator.patch(path, table | without_own)
        assert done["metadata"]["annotations"] == asks | {RANK_TABLE: "{}"}
        assert done["spec"]["schedulingGates"] == [GATES[0]]
        with refused("changes nothing of a pod but its own scheduling gate"):
            await tenant.operator.patch(path, {"metadata": {"annotations": {RANK_TABLE: "other"}}})

    @pytest.mark.parametrize("finalizer", [PROTECTION, "apportion.dev/allocation"])
    async def test_a_claim_in_use_keeps_its_protection(self, tenant: Tenant, finalizer: str) -> None:
        """Its owner could delete it and have the devices given to others while the pod runs; claims that are kept between pods have our finalizer."""
        made = await make_claim(tenant.cluster, tenant.namespace)
        path = f"{tenant.claims}/{made['metadata']['name']}"
        await tenant.user.patch(path, {"metadata": {"finalizers": []}})
        await _reserve(tenant, path, "gpu.apportion.dev", finalizer)

        with refused("is in use"):
            await tenant.user.patch(path, {"metadata": {"finalizers": []}})
        changed = await tenant.user.patch(path, {"metadata": {"labels": {"a": "b"}}})
        assert changed["metadata"]["finalizers"] == [finalizer]
        # `apportion release` hands a claim over to controller-manager; the other way, nobody would evict its pods any more.
        await tenant.user.patch(path, {"metadata": {"finalizers": [PROTECTION]}})
        with refused("is in use"):
            await tenant.user.patch(path, {"metadata": {"finalizers": ["apportion.dev/allocation"]}})
        await tenant.cluster.api.patch(f"{path}/status", {"status": {"reservedFor": []}})
        await tenant.user.patch(path, {"metadata": {"finalizers": []}})

    async def test_claims_of_other_drivers_are_nobody_elses_business(self, tenant: Tenant) -> None:
        """Only devices of ours are protected."""
        made = await make_claim(tenant.cluster, tenant.namespace)
        path = f"{tenant.claims}/{made['metadata']['name']}"
        await _reserve(tenant, path, "gpu.example.com")
        await tenant.user.patch(path, {"metadata": {"finalizers": []}})

    async def test_a_component_forbids_tolerations_of_the_guard(self, tenant: Tenant) -> None:
        """By its key, or without any: kube-scheduler allocates past the operator then; the policy is not part of the base."""
        await make_claim(tenant.cluster, tenant.namespace)
        keyless = _claim({"operator": "Exists"})
        await tenant.user.create(tenant.claims, keyless, dryRun="All")
        await tenant.cluster.kubectl("apply", "--filename", str(OPTIONAL))
        try:
            await _until_refused(tenant, keyless)
            template = {"metadata": {"generateName": "t-"}, "spec": {"spec": keyless["spec"]}}
            with refused("needs a key"):
                await tenant.user.create(tenant.templates, template)
            with refused("needs a key"):
                await tenant.user.create(tenant.claims, _first_available({"operator": "Exists"}))
            for guard in ({"key": GUARD, "operator": "Exists"}, {"key": GUARD}):
                with refused("may not be apportion.dev/guard"):
                    await tenant.user.create(tenant.claims, _claim(guard))
                with refused("may not be apportion.dev/guard"):
                    await tenant.user.create(tenant.claims, _first_available(guard))
            await tenant.user.create(tenant.claims, _claim({"operator": "Exists", "key": "example.com/own"}))
            await tenant.user.create(tenant.claims, {"metadata": {"generateName": "c-"}, "spec": CLAIM_SPEC})
        finally:
            await tenant.cluster.kubectl("delete", "--filename", str(OPTIONAL))


def _claim(toleration: Json) -> Json:
    exactly = {"deviceClassName": "gpu.apportion.dev", "tolerations": [toleration]}
    return {
        "metadata": {"generateName": "c-"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def _first_available(toleration: Json) -> Json:
    one = {"name": "one", "deviceClassName": "gpu.apportion.dev", "tolerations": [toleration]}
    requests = [{"name": "gpu", "firstAvailable": [one]}]
    return {"metadata": {"generateName": "c-"}, "spec": {"devices": {"requests": requests}}}


async def _until_refused(tenant: Tenant, claim: Json) -> None:

    async def said() -> str:
        try:
            await tenant.user.create(tenant.claims, claim, dryRun="All")
        except ApiError as error:
            return error.message
        return ""

    assert "needs a key" in await eventually(said)


async def _reserve(tenant: Tenant, path: str, driver: str, finalizer: str = PROTECTION) -> None:
    """Show the claim as allocated and in use."""
    await tenant.cluster.api.patch(path, {"metadata": {"finalizers": [finalizer]}})
    pod = (await make_pod(tenant.cluster, tenant.namespace, POD))["metadata"]
    result = {"request": "gpu", "driver": driver, "pool": "n", "device": "gpu-0"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": pod["name"], "uid": pod["uid"]}],
    }
    await tenant.cluster.api.patch(f"{path}/status", {"status": status})


class TestTenantBounds(OnDefault, TenantBounds):
    pass


class TestTenantBoundsOnOldest(OnOldest, TenantBounds):
    pass
