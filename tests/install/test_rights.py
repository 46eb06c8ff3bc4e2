"""What the ServiceAccounts may do ends where their work ends."""

import pytest

from testbed.api import Api, Json
from testbed.controlplane import ControlPlane
from testbed.errors import ApiError
from testbed.eventually import eventually
from tests.install.accessreview import allowed, named
from tests.install.supportedversions import OnDefault, OnOldest

RBAC = "/apis/rbac.authorization.k8s.io/v1"
OPERATOR, AGENT = "apportion-operator", "apportion-agent"

NOT_ALLOWED = {
    OPERATOR: [
        "get secrets",
        "create pods",
        "delete pods",
        "create pods/binding",
        "patch nodes",
        "delete resourceclaims.resource.k8s.io",
        "create resourceslices.resource.k8s.io",
        "arbitrary-node:patch resourceclaims.resource.k8s.io/driver",
        "patch partitions.apportion.dev/status",
        "patch partitionlayouts.apportion.dev",
        "patch mutatingadmissionpolicies.admissionregistration.k8s.io",
        "update leases.coordination.k8s.io",
    ],
    AGENT: [
        "get secrets",
        "list pods",
        "patch nodes",
        "list resourceclaims.resource.k8s.io",
        "patch resourceclaims.resource.k8s.io",
        "update resourceclaims.resource.k8s.io/status",
        "patch resourceclaims.resource.k8s.io/binding",
        "arbitrary-node:patch resourceclaims.resource.k8s.io/driver",
        "deletecollection resourceslices.resource.k8s.io",
        "create partitions.apportion.dev",
        "delete partitions.apportion.dev",
        "list events",
        "delete events",
        "get leases.coordination.k8s.io",
    ],
}
"""By account: verb, resource with its group, subresource."""


class Rights:
    @pytest.mark.parametrize(
        ("account", "right"),
        [(account, right) for account, rights in NOT_ALLOWED.items() for right in rights],
    )
    async def test_nobody_may_do_more_than_the_work_needs(
        self, cluster: ControlPlane, account: str, right: str
    ) -> None:
        """One writer for each object, and none of ours for what is others'."""
        assert not await allowed(cluster, account, right)

    @pytest.mark.parametrize("account", [OPERATOR, AGENT])
    async def test_everybody_may_do_what_the_role_lists(self, cluster: ControlPlane, account: str) -> None:
        """The roles are bound to the accounts that the workloads use."""
        role = await cluster.api.get(f"{RBAC}/clusterroles/{account}")
        rights = [
            (f"{verb} {named(resource, group)}", name)
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
            for name in rule.get("resourceNames", [""])
        ]

        assert len(rights) > 10
        assert [
            right for right, name in rights if not await allowed(cluster, account, right, name=name)
        ] == []

    async def test_the_lease_is_written_in_the_installations_namespace_only(
        self, cluster: ControlPlane
    ) -> None:
        """Elsewhere leases are other people's."""
        for verb in ("get", "create", "update"):
            right = f"{verb} leases.coordination.k8s.io"
            assert await allowed(cluster, OPERATOR, right, namespace="apportion-system")
            assert not await allowed(cluster, OPERATOR, right, namespace="default")

    async def test_an_allocation_needs_the_right_to_bind(self, cluster: ControlPlane, unmanaged: str) -> None:
        """The operator writes one; the same account without `resourceclaims/binding` may not."""
        role = await cluster.api.get(f"{RBAC}/clusterroles/{OPERATOR}")
        rules = [rule for rule in role["rules"] if rule["resources"] != ["resourceclaims/binding"]]
        assert len(rules) == len(role["rules"]) - 1
        name = f"{unmanaged}-unbinding"
        await cluster.api.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
        await cluster.api.create(
            f"{RBAC}/clusterrolebindings",
            {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": unmanaged}],
            },
        )
        claims = f"/apis/resource.k8s.io/v1/namespaces/{unmanaged}/resourceclaims"
        request: Json = {"name": "r", "exactly": {"deviceClassName": "gpu.apportion.dev"}}
        await cluster.api.create(
            claims, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
        )
        result = {"request": "r", "driver": "gpu.apportion.dev", "pool": "n1", "device": "gpu-0"}
        allocation = {"status": {"allocation": {"devices": {"results": [result]}}}}

        async def refusal(account: Api) -> str:
            try:
                await account.patch(f"{claims}/c/status", allocation)
            except ApiError as error:
                return error.message
            return ""

        unbinding = await cluster.service_account_kubeconfig(unmanaged, "default")
        operator = await cluster.service_account_kubeconfig("apportion-system", OPERATOR)
        async with Api.of(unbinding) as without, Api.of(operator) as whole:
            # Until RBAC has seen the new binding, the whole status is out of reach.
            said = await eventually(lambda: refusal(without), lambda said: "is invalid" in said)
            assert "resourceclaims/binding" in said
            assert await refusal(whole) == ""
        for kind in ("clusterrolebindings", "clusterroles"):
            await cluster.api.delete(f"{RBAC}/{kind}/{name}")


class TestRights(OnDefault, Rights):
    pass


class TestRightsOnOldest(OnOldest, Rights):
    pass
