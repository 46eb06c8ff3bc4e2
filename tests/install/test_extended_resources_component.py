"""The component for extended resources: which pods admission rewrites, into what, on both versions."""

from collections.abc import AsyncIterator

import pytest

from testbed.api import Json
from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from tests.e2e.tenant import MANAGED
from tests.install.gatedobjects import comparable, make_pod
from tests.install.rendered import ROOT, rendered

COMPONENT = ROOT / "manifests/components/extended-resources"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"


def container(name: str, *, claims: tuple[str, ...] = (), cpu: str = "", **resources: str) -> Json:
    """Return a container with these limits: gpu, mig, or others by name."""
    named = {"gpu": GPU, "mig": MIG, "other": "example.com/other"}
    limits = {named[each]: amount for each, amount in resources.items()} | ({"cpu": cpu} if cpu else {})
    found: Json = {"name": name, "image": "none", "resources": {"limits": limits}}
    if claims:
        found["resources"]["claims"] = [{"name": each} for each in claims]
    return found


def resources(pod: Json) -> dict[str, Json]:
    """Return what each container asks for."""
    spec = pod["spec"]
    return {
        each["name"]: each["resources"] for each in (*spec.get("initContainers", ()), *spec["containers"])
    }


def templates(pod: Json) -> dict[str, str]:
    """Return the template of each claim of a pod."""
    return {each["name"]: each["resourceClaimTemplateName"] for each in pod["spec"].get("resourceClaims", ())}


async def with_component(cluster: ControlPlane) -> ControlPlane:
    """Apply the component's objects, and wait until pods are rewritten."""
    await cluster.kubectl("apply", "-f", str(COMPONENT / "device-classes.yaml"))
    await cluster.kubectl("apply", "-f", str(COMPONENT / "admission.yaml"))
    await cluster.api.patch(f"{CLASSES}/gpu.apportion.dev", {"spec": {"extendedResourceName": GPU}})
    probe = await cluster.make_namespace("rewritten", MANAGED)

    async def rewritten() -> bool:
        pods = f"/api/v1/namespaces/{probe}/pods"
        for asked in ({"gpu": "1"}, {"mig": "1"}):
            spec = {"containers": [container("main", **asked)]}
            made = await cluster.api.create(pods, {"metadata": {"name": "p"}, "spec": spec}, dryRun="All")
            if not made["spec"].get("resourceClaims"):
                return False
        return True

    await eventually(rewritten)
    await cluster.api.delete(f"/api/v1/namespaces/{probe}")
    return cluster


async def taken_away(cluster: ControlPlane) -> None:
    """Delete the component's objects, so that other tests have the production install alone."""
    for file in ("admission.yaml", "device-classes.yaml"):
        await cluster.kubectl("delete", "-f", str(COMPONENT / file))
    await cluster.api.patch(f"{CLASSES}/gpu.apportion.dev", {"spec": {"extendedResourceName": None}})


@pytest.fixture(scope="module")
async def rewriting(installed: ControlPlane) -> AsyncIterator[ControlPlane]:
    """Give a control plane of the default version with the component."""
    yield await with_component(installed)
    await taken_away(installed)


@pytest.fixture(scope="module")
async def oldest_rewriting(oldest_installed: ControlPlane) -> AsyncIterator[ControlPlane]:
    """Give a control plane of the oldest version with the component."""
    yield await with_component(oldest_installed)
    await taken_away(oldest_installed)


class Rewriting:
    async def test_a_container_gets_a_claim_for_what_it_asked_for(
        self, cluster: ControlPlane, managed: str
    ) -> None:
        """The resource goes from requests and limits, all else stays, and the pod has the gate."""
        made = await make_pod(cluster, managed, {"containers": [container("main", gpu="2", cpu="1")]})
        assert templates(made) == {"gpu-apportion-dev-0": "apportion-2-gpu.apportion.dev"}
        assert resources(made) == {
            "main": {
                "claims": [{"name": "gpu-apportion-dev-0"}],
                "limits": {"cpu": "1"},
                "requests": {"cpu": "1"},
            }
        }
        assert made["spec"]["schedulingGates"] == [{"name": "apportion.dev/allocation"}]

    async def test_several_containers_and_resources_keep_their_order_and_their_own_claims(
        self, cluster: ControlPlane, managed: str
    ) -> None:
        """An init container that ends first borrows; one that asks for more than all others, or goes on running, has its own."""
        sidecar = {**container("runs-on", gpu="1"), "restartPolicy": "Always"}
        spec = {
            "initContainers": [
                container("plain"),
                container("borrows", gpu="1"),
                container("more", gpu="3"),
                sidecar,
            ],
            "containers": [container("none"), container("one", gpu="1"), container("both", gpu="2", mig="1")],
        }
        made = await make_pod(cluster, managed, spec)
        assert {
            name: sorted(each["name"] for each in what.get("claims", ()))
            for name, what in resources(made).items()
        } == {
            "plain": [],
            "borrows": ["gpu-apportion-dev-1"],
            "more": ["gpu-apportion-dev-init-2"],
            "runs-on": ["gpu-apportion-dev-init-3"],
            "none": [],
            "one": ["gpu-apportion-dev-1"],
            "both": ["gpu-apportion-dev-2", "mig-1g-10gb-apportion-dev-2"],
        }
        assert [each["name"] for each in made["spec"]["initContainers"]] == [
            "plain",
            "borrows",
            "more",
            "runs-on",
        ]
        assert templates(made)["gpu-apportion-dev-2"] == "apportion-2-gpu.apportion.dev"
        assert templates(made)["gpu-apportion-dev-init-2"] == "apportion-3-gpu.apportion.dev"
        assert templates(made)["mig-1g-10gb-apportion-dev-2"] == "apportion-1-mig-1g.10gb.apportion.dev"
        assert not any("limits" in what and GPU in what["limits"] for what in resources(made).values())

    async def test_claims_that_a_pod_has_already_stay(self, cluster: ControlPlane, managed: str) -> None:
        """Theirs come first."""
        spec = {
            "resourceClaims": [{"name": "own", "resourceClaimName": "c"}],
            "containers": [container("main", claims=("own",), gpu="1")],
        }
        made = await make_pod(cluster, managed, spec)
        assert [each["name"] for each in made["spec"]["resourceClaims"]] == ["own", "gpu-apportion-dev-0"]
        assert resources(made)["main"]["claims"] == [{"name": "own"}, {"name": "gpu-apportion-dev-0"}]

    @pytest.mark.parametrize(
        "asked", [{"other": "1"}, {"gpu": "0"}, {"gpu": "1k"}], ids=["another resource", "none", "a thousand"]
    )
    async def test_other_pods_are_left_alone(
        self, cluster: ControlPlane, managed: str, unmanaged: str, asked: dict[str, str]
    ) -> None:
        """As the same pod elsewhere."""
        spec = {"containers": [container("main", **asked)]}
        here = comparable(await make_pod(cluster, managed, spec))
        assert here == comparable(await make_pod(cluster, unmanaged, spec))

    async def test_in_a_namespace_without_the_label_a_pod_stays_a_device_plugins(
        self, cluster: ControlPlane, unmanaged: str
    ) -> None:
        """Both worlds live side by side."""
        made = await make_pod(cluster, unmanaged, {"containers": [container("main", gpu="1")]})
        assert resources(made)["main"]["limits"] == {GPU: "1"}
        assert "resourceClaims" not in made["spec"]

    async def test_a_class_without_the_label_is_others(self, cluster: ControlPlane, managed: str) -> None:
        """kube-scheduler serves its pods."""
        body: Json = {"metadata": {"name": "theirs"}, "spec": {"extendedResourceName": "example.com/other"}}
        await cluster.api.create(CLASSES, body)
        made = await make_pod(cluster, managed, {"containers": [container("main", other="1")]})
        await cluster.api.delete(f"{CLASSES}/theirs")
        assert "resourceClaims" not in made["spec"]

    async def test_every_class_of_the_component_is_accepted_and_named_for_claims(
        self, cluster: ControlPlane
    ) -> None:
        """No two stand behind one resource; all names are short enough for admission."""
        found, _ = await cluster.api.items(CLASSES)
        named = [each for each in found if each["spec"].get("extendedResourceName")]
        resources = [each["spec"]["extendedResourceName"] for each in named]
        assert len(set(resources)) == len(resources)
        assert {GPU, MIG, "huawei.com/Ascend910", "huawei.com/Ascend310P"} <= set(resources)
        assert all(len(each["metadata"]["name"]) <= 50 for each in named)
        assert all(each["metadata"]["labels"]["apportion.dev/managed"] == "true" for each in named)


class TestRewriting(Rewriting):
    @pytest.fixture
    def cluster(self, rewriting: ControlPlane) -> ControlPlane:
        return rewriting


class TestRewritingOnOldest(Rewriting):
    @pytest.fixture
    def cluster(self, oldest_rewriting: ControlPlane) -> ControlPlane:
        return oldest_rewriting


def test_the_operator_may_make_templates_where_the_component_is_installed_only(binaries: Binaries) -> None:
    """Least rights: the production install rewrites nothing."""

    def rights(folder: str) -> list[tuple[str, ...]]:
        return [
            tuple(rule["verbs"])
            for item in rendered(binaries, folder)
            if item["kind"] == "ClusterRole" and item["metadata"]["name"] == "apportion-operator"
            for rule in item["rules"]
            if "resourceclaimtemplates" in rule["resources"]
        ]

    assert rights("manifests") == []
    assert rights("testbed/demo/manifests") == [("create",)]
