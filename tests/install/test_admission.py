"""Gate and finalizer: added where a namespace asks for it, and nothing else is touched anywhere."""

import pytest

from testbed.api import Json
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from tests.install.gatedobjects import CLAIM_SPEC, comparable, make_claim, make_pod
from tests.install.supportedversions import OnDefault, OnOldest

GATE = {"name": "apportion.dev/allocation"}
PROTECTION = "resource.kubernetes.io/delete-protection"

POD_SPEC: Json = {
    "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
}
PLAIN: Json = {"containers": [{"name": "main", "image": "none"}]}


class Admission:
    async def test_a_pod_with_claims_gets_the_gate_and_nothing_else(
        self, cluster: ControlPlane, managed: str, unmanaged: str
    ) -> None:
        """Compared with the same pod elsewhere, the gate and its condition are the only difference."""
        gated = comparable(await make_pod(cluster, managed, POD_SPEC))
        free = comparable(await make_pod(cluster, unmanaged, POD_SPEC))

        assert gated["spec"].pop("schedulingGates") == [GATE]
        assert [condition["reason"] for condition in gated["status"].pop("conditions")] == ["SchedulingGated"]
        assert gated == free

    async def test_other_gates_stay_before_ours(self, cluster: ControlPlane, managed: str) -> None:
        """Kueue and others keep theirs; ours is added once, also when the user wrote it."""
        other = {"name": "kueue.x-k8s.io/admission"}

        beside = await make_pod(cluster, managed, {**POD_SPEC, "schedulingGates": [other]})
        already = await make_pod(cluster, managed, {**POD_SPEC, "schedulingGates": [GATE, other]})

        assert beside["spec"]["schedulingGates"] == [other, GATE]
        assert already["spec"]["schedulingGates"] == [GATE, other]

    @pytest.mark.parametrize(
        "spec",
        [
            pytest.param(PLAIN, id="no claims"),
            pytest.param({**PLAIN, "resourceClaims": []}, id="an empty list of claims"),
            pytest.param({**POD_SPEC, "nodeName": "somewhere"}, id="a node already"),
        ],
    )
    async def test_other_pods_are_left_alone(
        self, cluster: ControlPlane, managed: str, unmanaged: str, spec: Json
    ) -> None:
        """Without claims there is nothing to wait for; a pod that has its node may have no gate."""
        here = comparable(await make_pod(cluster, managed, spec))
        elsewhere = comparable(await make_pod(cluster, unmanaged, spec))

        assert "schedulingGates" not in here["spec"]
        assert here == elsewhere

    async def test_a_claim_gets_the_finalizer_and_nothing_else(
        self, cluster: ControlPlane, managed: str, unmanaged: str
    ) -> None:
        """The scheduler and controller-manager expect it on an allocated claim; the rest stays as written."""
        protected = comparable(await make_claim(cluster, managed))
        free = comparable(await make_claim(cluster, unmanaged))

        assert protected["metadata"].pop("finalizers") == [PROTECTION]
        assert protected == free

    async def test_other_finalizers_stay(self, cluster: ControlPlane, managed: str) -> None:
        """Ours joins them."""
        claim = await make_claim(cluster, managed, finalizers=["example.com/other"])

        assert sorted(claim["metadata"]["finalizers"]) == ["example.com/other", PROTECTION]

    @pytest.mark.parametrize(
        "annotations",
        [
            pytest.param({"apportion.dev/allocation": "Immediate"}, id="allocated without a pod"),
            pytest.param({"apportion.dev/keep-for": "10m"}, id="kept between pods"),
            pytest.param(
                {"resource.kubernetes.io/extended-resource-claim": "true"}, id="made by the scheduler"
            ),
        ],
    )
    async def test_some_claims_get_no_finalizer(
        self, cluster: ControlPlane, managed: str, annotations: dict[str, str]
    ) -> None:
        """Immediate claims would be deallocated between pods; the scheduler looks after its own."""
        claim = await make_claim(cluster, managed, annotations=annotations)

        assert "finalizers" not in claim["metadata"]

    async def test_other_annotations_change_nothing(self, cluster: ControlPlane, managed: str) -> None:
        """Only the value Immediate asks for an allocation without a pod."""
        claim = await make_claim(
            cluster, managed, annotations={"apportion.dev/allocation": "Later", "a": "b"}
        )

        assert claim["metadata"]["finalizers"] == [PROTECTION]

    async def test_claims_made_from_a_template_are_protected_too(
        self, cluster: ControlPlane, managed: str
    ) -> None:
        """controller-manager makes them for gated pods at once, and admission sees them as any other."""
        claims = f"/apis/resource.k8s.io/v1/namespaces/{managed}/resourceclaims"
        await cluster.api.create(
            f"/apis/resource.k8s.io/v1/namespaces/{managed}/resourceclaimtemplates",
            {"metadata": {"name": "t"}, "spec": {"spec": CLAIM_SPEC}},
        )
        pod = await make_pod(
            cluster,
            managed,
            {**POD_SPEC, "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]},
        )

        async def generated() -> list[Json]:
            listed = await cluster.api.get(claims)
            return [
                item
                for item in listed["items"]
                if pod["metadata"]["uid"]
                in [owner["uid"] for owner in item["metadata"].get("ownerReferences", [])]
            ]

        (claim,) = await eventually(generated)
        assert claim["metadata"]["finalizers"] == [PROTECTION]

    async def test_an_update_never_adds_anything(self, cluster: ControlPlane, managed: str) -> None:
        """A gate that was removed stays removed, or no pod would ever run."""
        pod = await make_pod(cluster, managed, POD_SPEC)
        claim = await make_claim(cluster, managed)

        ungated = await cluster.api.patch(
            f"/api/v1/namespaces/{managed}/pods/{pod['metadata']['name']}",
            [{"op": "remove", "path": "/spec/schedulingGates/0"}],
            "json",
        )
        bare = await cluster.api.patch(
            f"/apis/resource.k8s.io/v1/namespaces/{managed}/resourceclaims/{claim['metadata']['name']}",
            {"metadata": {"finalizers": None}},
        )

        assert not ungated["spec"].get("schedulingGates")
        assert "finalizers" not in bare["metadata"]


class TestAdmission(OnDefault, Admission):
    pass


class TestAdmissionOnOldest(OnOldest, Admission):
    pass
