"""The Helm chart installs what the manifests install: both are rendered, by Helm and by kustomize, and compared object by object."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from apportion import __version__
from testbed.binaries import Binaries
from testbed.chart.features import ELSEWHERE, FEATURES
from testbed.chart.templates import Kustomize, generated, stale
from testbed.controlplane import ControlPlane
from tests.install.charts import CHART, Helm, keyed
from tests.install.rendered import ROOT, combined
from tests.install.supportedversions import OnDefault, OnOldest

GENERIC = yaml.safe_load((ROOT / "manifests/components/generic-devices/devices.yaml").read_text())["devices"]
VALUES: dict[str, dict[str, Any]] = {
    "overlays/nvidia-names": {"nvidiaNames": True},
    "overlays/ascend": {"ascend": True},
    "components/preemption": {"preemption": True},
    "components/generic-devices": {"genericDevices": GENERIC},
    "components/extended-resources": {"extendedResources": True},
    "components/web": {"web": True},
    "components/adopt-foreign": {"adoptForeign": True},
    "components/imex-channels": {"imexChannels": 8},
    "components/no-keyless-tolerations": {"noKeylessTolerations": True},
}
"""Each feature's folder, and its values."""
COMPONENTS = [feature.folder for feature in FEATURES if feature.component]
COMBINATIONS = [
    [],
    *([feature.folder] for feature in FEATURES),
    COMPONENTS,
    ["overlays/nvidia-names", *COMPONENTS],
    ["overlays/ascend", *COMPONENTS],
]
EVERYTHING = {name: value for values in VALUES.values() for name, value in values.items()}


@pytest.fixture
def helm(helm_program: Path, tmp_path: Path) -> Helm:
    return Helm(helm_program, tmp_path)


def test_the_committed_chart_is_made_from_the_manifests(binaries: Binaries) -> None:
    """`python -m testbed chart` changes nothing."""
    files = generated(Kustomize(binaries["kubectl"], ROOT / "manifests"))
    there = {name: (CHART / name).read_text(encoding="utf-8") for name in files if (CHART / name).exists()}
    assert {name for name in files if there.get(name) != files[name]} == set()
    assert stale(files, CHART) == []


def test_every_overlay_and_component_is_a_value_or_has_a_reason_not_to_be() -> None:
    """Nobody has to look through folders to learn what a chart leaves out."""
    folders = {
        f"{parent.name}/{folder.name}"
        for parent in (ROOT / "manifests/overlays", ROOT / "manifests/components")
        for folder in parent.iterdir()
    }
    assert {feature.folder for feature in FEATURES} == set(VALUES)
    assert folders <= set(VALUES) | set(ELSEWHERE)


def test_the_chart_has_the_version_of_the_package() -> None:
    """It installs the image that it is released with."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (__version__, f"v{__version__}")


@pytest.mark.parametrize("folders", COMBINATIONS, ids=lambda folders: " ".join(folders) or "base")
def test_values_install_what_overlays_and_components_install(
    helm: Helm, binaries: Binaries, tmp_path: Path, folders: list[str]
) -> None:
    """Object by object, field by field, list by list."""
    features = {name: value for folder in folders for name, value in VALUES[folder].items()}
    by_helm = keyed(helm.objects({"namespace": {"create": True}, "features": features}))
    overlays = [folder for folder in folders if folder.startswith("overlays/")]
    resource = f"manifests/{overlays[0]}" if overlays else "manifests"
    components = [f"manifests/{folder}" for folder in folders if folder not in overlays]
    by_kustomize = keyed(combined(binaries, tmp_path, resource, *components))

    assert set(by_helm) == set(by_kustomize)
    for name, item in by_kustomize.items():
        assert by_helm[name] == item


def test_by_default_the_namespace_is_not_an_object_of_the_release(helm: Helm) -> None:
    """Helm cannot make the namespace that it keeps the release in."""
    there = {kind for kind, _ in keyed(helm.objects({}))}
    assert "Namespace" not in there


def test_everything_follows_the_release_into_another_namespace(helm: Helm) -> None:
    """Accounts, bindings, flow schemas and options; nothing stays behind under the name of the manifests' namespace."""
    text = helm.text({"namespace": {"create": True}, "features": EVERYTHING}, namespace="devices")
    used = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    assert "apportion-system" not in used
    assert "--namespace=devices" in used


@pytest.mark.parametrize("namespace", ["2024", "true", "0x1f"])
def test_a_namespace_may_have_a_name_that_yaml_reads_as_something_else(helm: Helm, namespace: str) -> None:
    """The API server took none of its objects."""
    values = {"namespace": {"create": True}, "features": EVERYTHING}
    objects = helm.objects(values, namespace=namespace)
    named = [item["metadata"].get("namespace", namespace) for item in objects]
    [made] = [item["metadata"]["name"] for item in objects if item["kind"] == "Namespace"]
    accounts = [
        subject["namespace"]
        for item in objects
        if item["kind"] in ("RoleBinding", "ClusterRoleBinding")
        for subject in item["subjects"]
        if subject["kind"] == "ServiceAccount"
    ]
    assert accounts
    assert {*map(repr, [*named, made, *accounts])} == {repr(namespace)}


class Accepted:
    async def test_the_server_takes_every_object_of_the_chart(
        self, cluster: ControlPlane, helm: Helm, tmp_path: Path
    ) -> None:
        """Server-side, as a dry run, with every feature and with none."""
        for number, features in enumerate(({}, EVERYTHING)):
            file = tmp_path / f"{number}.yaml"
            values = {"namespace": {"create": True}, "features": features}
            file.write_text(helm.text(values), encoding="utf-8")
            said = await cluster.kubectl(
                "apply", "--server-side", "--dry-run=server", "--force-conflicts", "--filename", str(file)
            )
            assert "daemonset.apps/apportion-agent serverside-applied (server dry run)" in said


class TestAccepted(OnDefault, Accepted):
    pass


class TestAcceptedByOldest(OnOldest, Accepted):
    pass
