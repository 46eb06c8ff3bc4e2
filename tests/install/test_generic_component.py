"""The component for generic devices: what it installs fits together."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from apportion.agent.devices.generic.kind import DeviceKind
from apportion.settings import DRIVERS
from testbed.binaries import Binaries
from tests.install.rendered import ROOT, combined, drivers, pods, rendered

FOLDER = "testbed/demo/manifests"


def test_agents_find_the_configuration_where_it_is_mounted_whole(binaries: Binaries) -> None:
    """By a folder: a file that is mounted by itself (subPath) does not follow its ConfigMap."""
    (agent,) = [
        each
        for pod in pods(rendered(binaries, FOLDER))
        for each in pod["containers"]
        if each["name"] == "agent"
    ]
    (file,) = [each["value"] for each in agent["env"] if each["name"] == "GENERIC_DEVICES"]
    folder, _, name = file.rpartition("/")
    (mount,) = [each for each in agent["volumeMounts"] if each["mountPath"] == folder]
    assert "subPath" not in mount
    assert name in _configuration(binaries)["data"]


def test_every_driver_of_the_configuration_has_its_rights_and_its_protection(binaries: Binaries) -> None:
    """Agents may report about its claims, claims in use are protected, and parameters that nobody honours are refused."""
    (text,) = _configuration(binaries)["data"].values()
    described = {DeviceKind.from_json(raw).driver for raw in yaml.safe_load(text)["devices"]}
    assert described
    for known in drivers(rendered(binaries, FOLDER)).values():
        assert known == described | DRIVERS


def test_it_goes_together_with_the_overlay_of_nvidias_names(binaries: Binaries, tmp_path: Path) -> None:
    """Nobody merges lists by hand: each of both adds its own drivers to what the other one has."""
    both = combined(
        binaries, tmp_path, "manifests/overlays/nvidia-names", "manifests/components/generic-devices"
    )
    for known in drivers(both).values():
        assert known == DRIVERS | {"gpu.nvidia.com", "fpga.example.com"}
    env = next(each for pod in pods(both) for each in pod["containers"] if each["name"] == "agent")["env"]
    assert {"DRIVER_GPU", "GENERIC_DEVICES"} <= {each["name"] for each in env}


@pytest.mark.parametrize(
    "file", ["components/generic-devices", "components/imex-channels", "overlays/nvidia-names"]
)
def test_claims_in_use_are_protected_as_those_of_our_own_drivers_are(file: str) -> None:
    """What a policy says of further drivers is what the base says of ours."""
    own, further = (
        _protection(folder) for folder in ("base/tenant-bounds.yaml", f"{file}/claims-in-use.yaml")
    )
    for policy in (own, further):
        condition = policy["matchConditions"][1]
        condition["expression"] = re.sub(r"'[^']+'", "", condition["expression"]).replace(", ", "")
    assert own == further


def _protection(file: str) -> dict[str, Any]:
    objects = yaml.safe_load_all((ROOT / "manifests" / file).read_text(encoding="utf-8"))
    (found,) = [
        item["spec"]
        for item in objects
        if item["kind"] == "ValidatingAdmissionPolicy"
        and item["metadata"]["name"].startswith("claims-in-use")
    ]
    return dict(found)


def _configuration(binaries: Binaries) -> dict[str, Any]:
    (found,) = [item for item in rendered(binaries, FOLDER) if item["kind"] == "ConfigMap"]
    return found
