"""The component for generic devices: what it installs fits together."""

import re
from typing import Any

import yaml

from apportion.agent.devices.generic.kind import DeviceKind
from apportion.settings import DRIVERS
from testbed.binaries import Binaries
from tests.install.rendered import pods, rendered

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
    objects = rendered(binaries, FOLDER)
    (text,) = _configuration(binaries)["data"].values()
    drivers = {DeviceKind.from_json(raw).driver for raw in yaml.safe_load(text)["devices"]}
    by_name = {(item["kind"], item["metadata"]["name"]): item for item in objects}
    allowed = {
        name
        for rule in by_name["ClusterRole", "apportion-agent"]["rules"]
        if "resourceclaims/driver" in rule["resources"]
        for name in rule["resourceNames"]
    }
    policy = by_name["ValidatingAdmissionPolicy", "claims-in-use.apportion.dev"]
    condition = policy["spec"]["matchConditions"][1]["expression"]
    (operator,) = [each for pod in pods(objects) for each in pod["containers"] if each["name"] == "operator"]
    options = dict(arg.removeprefix("--").split("=", 1) for arg in operator["args"][1:])
    wanted = drivers | DRIVERS
    assert drivers
    assert wanted <= allowed
    assert wanted == set(options["drivers"].split(","))
    assert wanted == set(re.findall(r"'([^']+)'", condition))


def _configuration(binaries: Binaries) -> dict[str, Any]:
    (found,) = [item for item in rendered(binaries, FOLDER) if item["kind"] == "ConfigMap"]
    return found
