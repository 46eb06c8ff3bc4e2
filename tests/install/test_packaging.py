"""Every path, flag, name and make target in Dockerfile, Tiltfile and manifests exists."""

import os
import re
from pathlib import Path

import pytest
import typer

from apportion import __main__ as program
from apportion import __version__
from apportion.agent.devices.simulated.simulation import load
from apportion.agent.settings import AgentOptions
from apportion.api import crd
from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from tests.install.imagefiles import Dockerfile, Tiltfile
from tests.install.rendered import ROOT, options, pods, rendered
from tests.install.rendered import drivers as drivers_known

OVERLAYS = (
    "manifests",
    "manifests/overlays/ascend",
    "manifests/overlays/dev",
    "manifests/overlays/nvidia-names",
    "testbed/demo/manifests",
)

FOR_THE_LOADER = {"LD_LIBRARY_PATH"}
"""Variables that are no options of ours."""


@pytest.mark.parametrize("folder", OVERLAYS)
def test_the_workloads_start_with_options_that_exist(binaries: Binaries, folder: str) -> None:
    """An unknown option would be a crash loop on somebody's cluster."""
    seen = set()
    for pod in pods(rendered(binaries, folder)):
        for container in pod["containers"]:
            role, *arguments = container["args"]
            seen.add(role)
            given = {argument.partition("=")[0] for argument in arguments}
            assert given <= options(role), folder
    assert seen == {"operator", "agent"}


@pytest.mark.parametrize("folder", OVERLAYS)
def test_every_mounted_folder_and_account_is_defined(binaries: Binaries, folder: str) -> None:
    """Mounts have volumes, ConfigMaps and ServiceAccounts exist, and paths in options are mounted."""
    objects = rendered(binaries, folder)
    names = {(item["kind"], item["metadata"]["name"]) for item in objects}
    for pod in pods(objects):
        volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
        assert ("ServiceAccount", pod["serviceAccountName"]) in names
        for volume in volumes.values():
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in names
        for container in pod["containers"]:
            mounts = {mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts", [])}
            assert set(mounts.values()) == set(volumes)
            paths = {
                value
                for _, _, value in (a.partition("=") for a in container["args"])
                if value.startswith("/")
            }
            paths |= {
                path
                for variable in container.get("env", [])
                for path in variable.get("value", "").split(":")
                if path.startswith("/")
            }
            lost = {path for path in paths if not any(Path(path).is_relative_to(mount) for mount in mounts)}
            assert lost == set()


@pytest.mark.parametrize("folder", OVERLAYS)
async def test_the_server_takes_every_object_of_an_overlay(installed: ControlPlane, folder: str) -> None:
    """Checked by a dry run on a real control plane: schemas, CEL of classes and policies, quantities."""
    said = await installed.kubectl("apply", "--dry-run=server", "--kustomize", str(ROOT / folder))

    assert "daemonset.apps/apportion-agent created (server dry run)" in said


def test_the_operator_runs_without_privileges(binaries: Binaries) -> None:
    """Non-root, no capabilities, nothing writable, no host paths; the agent is the only privileged part."""
    objects = rendered(binaries, "manifests")
    (operator,) = [item for item in objects if item["kind"] == "Deployment"]
    pod = operator["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert operator["spec"]["replicas"] == 2
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert "volumes" not in pod


@pytest.mark.parametrize("folder", OVERLAYS)
def test_probes_and_services_point_at_the_health_port(binaries: Binaries, folder: str) -> None:
    """The port in the option, the container's port and the Service's port are one."""
    objects = rendered(binaries, folder)
    ports = {}
    for pod in pods(objects):
        (container,) = pod["containers"]
        (port,) = container["ports"]
        assert f"--health-port={port['containerPort']}" in container["args"]
        assert {container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} == {
            port["name"]
        }
        ports[f"apportion-{container['name']}"] = port["containerPort"]
    services = [item["spec"] for item in objects if item["kind"] == "Service"]
    assert {
        service["selector"]["app.kubernetes.io/name"]: service["ports"][0]["port"] for service in services
    } == ports


@pytest.mark.parametrize("folder", OVERLAYS)
def test_every_variable_is_read_by_an_option_or_an_argument(binaries: Binaries, folder: str) -> None:
    """A misspelt name would be silently ignored."""
    for pod in pods(rendered(binaries, folder)):
        (container,) = pod["containers"]
        command = typer.main.get_command(program.app)
        read = {
            parameter.envvar
            for parameter in command.commands[container["args"][0]].params  # type: ignore[attr-defined]
        }
        used = set(re.findall(r"\$\((\w+)\)", " ".join(container["args"])))
        names = {variable["name"] for variable in container.get("env", [])} - FOR_THE_LOADER
        assert names <= read | used
        assert used <= {variable["name"] for variable in container["env"]} if used else True


def test_an_agent_is_replaced_without_a_gap(binaries: Binaries) -> None:
    """The new one serves before the old one leaves, which takes sockets of its own; the host shows itself and later mounts."""
    (agent,) = [item for item in rendered(binaries, "manifests") if item["kind"] == "DaemonSet"]
    update = agent["spec"]["updateStrategy"]["rollingUpdate"]
    pod = agent["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (host,) = [mount for mount in container["volumeMounts"] if mount["name"] == "host"]
    root = next(volume["hostPath"]["path"] for volume in pod["volumes"] if volume["name"] == "host")

    assert (update["maxUnavailable"], update["maxSurge"]) == (0, "10%")
    assert "--instance=$(POD_UID)" in container["args"]
    # What is left is for the end of everything but kubelet's calls.
    assert pod["terminationGracePeriodSeconds"] >= AgentOptions("n").end_timeout + 8
    assert {"name": "HOST_ROOT", "value": host["mountPath"]} in container["env"]
    assert (root, host["readOnly"], host["mountPropagation"]) == ("/", True, "HostToContainer")
    assert pod["priorityClassName"] == "system-node-critical"
    assert pod["tolerations"] == [{"operator": "Exists"}]
    # What kubelet and runtime read has the same path on both sides; files name each other by it.
    for volume in pod["volumes"]:
        mounts = [
            mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == volume["name"]
        ]
        assert mounts in ([volume["hostPath"]["path"]], ["/host"])


def test_the_simulated_cards_of_the_development_install_can_be_read() -> None:
    """The agent refuses unknown models and misspelt fields; better here than in a pod's log."""
    described, _ = load(ROOT / "manifests/overlays/dev/simulation.yaml")

    assert described.cards


def test_the_image_copies_what_exists_and_docker_may_see() -> None:
    """A path that .dockerignore hides would fail on the first build."""
    admitted = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }
    stages = {line.split()[-1] for line in Dockerfile().all("FROM")}
    sources = set()
    for copy in Dockerfile().all("COPY"):
        first, *rest = copy.split()
        if first.startswith("--from="):
            assert first.removeprefix("--from=") in stages
        else:
            sources.add(first)
            assert rest
            assert (ROOT / first).exists()
    assert sources == admitted


@pytest.mark.parametrize("folder", ["manifests", "manifests/overlays/nvidia-names"])
def test_the_install_runs_the_image_of_this_version(binaries: Binaries, folder: str) -> None:
    """A release changes the version in one place and this test names the others."""
    images = {
        container["image"] for pod in pods(rendered(binaries, folder)) for container in pod["containers"]
    }

    assert images == {f"apportion:v{__version__}"}


@pytest.mark.parametrize("folder", OVERLAYS)
def test_every_driver_has_its_rights_and_its_protection(binaries: Binaries, folder: str) -> None:
    """Also the drivers before an overlay renamed one: claims allocated under the old name are still in use."""
    objects = rendered(binaries, folder)
    drivers = set(AgentOptions("n").drivers.values())
    for pod in pods(objects):
        for container in pod["containers"]:
            named = container.get("env", [])
            drivers |= {each["value"] for each in named if each["name"].startswith("DRIVER_")}
    for known in drivers_known(objects).values():
        assert drivers <= known


def test_the_image_installs_locked_packages_and_runs_as_nobody() -> None:
    """Hashes for every package, no address of an index, no root unless the manifest asks for it."""
    dockerfile = Dockerfile()
    (install,) = [line for line in dockerfile.all("RUN") if "pip install" in line]
    requirements = (ROOT / "requirements/runtime.txt").read_text(encoding="utf-8")

    assert "--require-hashes" in install
    assert "--no-deps" in install
    assert "://" not in requirements
    assert requirements.count("==") <= requirements.count("--hash=")
    assert dockerfile.all("USER")[-1] == "65532:65532"
    assert dockerfile.all("ENTRYPOINT") == ['["/app/bin/python", "-m", "apportion"]']


def test_tilt_builds_the_image_from_what_exists() -> None:
    """Contexts, live updates and the build stage name things of this repository."""
    tiltfile = Tiltfile()
    ((image, context), build) = tiltfile.all("docker_build_with_restart")[0]
    dockerfile = Dockerfile()

    assert (image, context) == ("apportion", ".")
    assert build["target"] in {line.split()[-1] for line in dockerfile.all("FROM")}
    assert str(build["entrypoint"]).replace("'", '"') == dockerfile.all("ENTRYPOINT")[0]
    for path in [*build["only"], *(name for (names, _) in tiltfile.all("fall_back_on") for name in names)]:
        assert (ROOT / path).exists()
    for (source, target), _ in tiltfile.all("sync"):
        assert f"{source} {target}" in dockerfile.all("COPY")
    assert tiltfile.all("allow_k8s_contexts")[0][0][0]


def test_tilt_names_objects_and_targets_that_exist(binaries: Binaries) -> None:
    """Resources are those of the development overlay, CRDs those of the models, make targets those of the Makefile."""
    tiltfile = Tiltfile()
    ((overlay,), _) = tiltfile.all("kustomize")[0]
    objects = rendered(binaries, overlay)
    workloads = {item["metadata"]["name"] for item in objects if item["kind"] in {"Deployment", "DaemonSet"}}
    crds = {f"{definition.plural}.apportion.dev" for definition in crd.DEFINITIONS}
    resources = tiltfile.all("k8s_resource")
    locals_ = {names[0]: words for names, words in tiltfile.all("local_resource")}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

    assert {names[0] for names, _ in resources if names} == workloads
    (first,) = [words for names, words in resources if not names]
    assert {name.partition(":")[0] for name in first["objects"]} == crds
    assert {
        word.removeprefix("crd/") for word in locals_["crds-served"]["cmd"] if word.startswith("crd/")
    } == crds
    made = [words["cmd"] for words in locals_.values() if words["cmd"][0] == "make"]
    assert {command[1] for command in made} == {"crds", "quick"}
    assert {command[1] for command in made} <= targets
    known = {first["new_name"], *locals_}
    for _, words in [*resources, *tiltfile.all("local_resource")]:
        assert set(words.get("resource_deps", [])) <= known
        assert all((ROOT / path).exists() for path in words.get("deps", []))


def test_an_agent_that_adopts_sees_the_hosts_processes(binaries: Binaries, tmp_path: Path) -> None:
    """Without hostPID it adopts nothing; nobody else gets the right to see them."""
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{os.path.relpath(ROOT / 'manifests', tmp_path)}]\n"
        f"components: [{os.path.relpath(ROOT / 'manifests/components/adopt-foreign', tmp_path)}]\n"
    )
    for folder in (*OVERLAYS, str(tmp_path)):
        for pod in pods(rendered(binaries, folder)):
            variables = {one["name"]: one.get("value") for one in pod["containers"][0].get("env", [])}
            assert (variables.get("FOREIGN") == "adopt") == pod.get("hostPID", False)
            assert pod.get("hostPID", False) == (folder == str(tmp_path) and "NODE_NAME" in variables)
