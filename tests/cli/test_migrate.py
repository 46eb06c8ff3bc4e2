"""`apportion migrate`: what workloads written for device plugins would ask for, and where they would fit."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.cli.migrating import (
    GPU,
    NPU,
    NVIDIA,
    app,
    ask,
    cluster,
    container,
    device_class,
    rows,
    spec,
    workload,
)


def test_a_deployment_that_fits_is_served(tmp_path: Path) -> None:
    """Every replica has a place; what is placed is taken for the next one, and exit status 0 says that all are."""
    result = ask(tmp_path, workload("Deployment", "trains", spec(container(gpu="1")), replicas=3))
    assert result.exit_code == 0
    [found] = rows(result)
    assert found["nodes"] == {"n1": 2, "n2": 1}
    assert found["asks"][0]["deviceClass"] == GPU
    assert found["served"] is True


def test_what_does_not_fit_says_why_and_ends_with_1(tmp_path: Path) -> None:
    """Workloads are placed one after the other: the second finds too little."""
    first = workload("Deployment", "first", spec(container(gpu="2")))
    second = workload("StatefulSet", "second", spec(container(gpu="1")), replicas=2)
    result = ask(tmp_path, first, second)
    assert result.exit_code == 1
    one, two = rows(result)
    assert one["nodes"] == {"n1": 1}
    assert two["nodes"] == {"n2": 1}
    assert "wants 1" in two["blocked"][0]


@pytest.mark.parametrize(
    ("resource", "device_class", "selectors", "where"),
    [
        ("nvidia.com/gpu", GPU, [], "n1"),
        (
            "nvidia.com/mig-1g.10gb.me",
            "mig.apportion.dev",
            ['device.attributes["gpu.apportion.dev"].profile == "1g.10gb+me"'],
            "n2",
        ),
        ("nvidia.com/gpu.shared", GPU, ["device.allowMultipleAllocations"], None),
        (
            "huawei.com/Ascend910",
            NPU,
            ['device.attributes["npu.apportion.dev"].model.startsWith("910")'],
            "n3",
        ),
        (
            "huawei.com/Ascend910-5c.1cpu.8g",
            "vnpu.apportion.dev",
            [
                'device.attributes["npu.apportion.dev"].model.startsWith("910")',
                'device.attributes["npu.apportion.dev"].template == "vir05_1c_8g"',
            ],
            "n3",
        ),
        (
            "huawei.com/Ascend310P-2c",
            "vnpu.apportion.dev",
            [
                'device.attributes["npu.apportion.dev"].model.startsWith("310P")',
                'device.attributes["npu.apportion.dev"].template == "vir02"',
            ],
            None,
        ),
    ],
)
def test_the_names_of_device_plugins_become_claims(
    tmp_path: Path, resource: str, device_class: str, selectors: list[str], where: str | None
) -> None:
    """Class and selectors for each kind of name; the allocator says whether the cluster has it."""
    result = ask(tmp_path, workload("Job", "w", spec(container(**{resource: "1"}))))
    [found] = rows(result)
    assert (found["asks"][0]["deviceClass"], found["asks"][0]["selectors"]) == (device_class, selectors)
    assert list(found["nodes"]) == ([where] if where else [])
    assert result.exit_code == (0 if where else 1)


def test_a_managed_class_with_that_name_goes_before_our_rules(tmp_path: Path) -> None:
    """An administrator's choice; a class of others does not."""
    own = device_class("own.example.com", GPU, "gpu", NVIDIA)
    theirs = device_class("theirs.example.com", GPU, "gpu", "example.com/card", managed=False)
    pod = spec(container(gpu="1", **{"example.com/card": "1"}))
    [found] = rows(ask(tmp_path, workload("Job", "w", pod), world=[*cluster(), own, theirs]))
    assert [each["deviceClass"] for each in found["asks"]] == ["own.example.com"]


def test_a_device_that_no_rule_knows_blocks_the_workload(tmp_path: Path) -> None:
    """Moving a part of it would leave a pod that nobody can place; MIG devices that are shared are no offer of ours."""
    pod = spec(
        container(gpu="1", **{"amd.com/gpu": "1"}), container("b", **{"nvidia.com/mig-1g.5gb.shared": "1"})
    )
    result = ask(tmp_path, workload("Job", "w", pod))
    [found] = rows(result)
    assert result.exit_code == 1
    assert [text.split(": ")[1] for text in found["blocked"]] == [
        "amd.com/gpu",
        "nvidia.com/mig-1g.5gb.shared",
    ]
    assert "ResourceClaimTemplate" not in ask(tmp_path, workload("Job", "w", pod), output="yaml").stdout


def test_what_asks_for_no_devices_is_not_listed(tmp_path: Path) -> None:
    """Nothing to move, nothing to refuse."""
    result = ask(tmp_path, workload("Job", "w", spec(container(cpu="1"), container("b", gpu="0"))))
    assert (result.exit_code, rows(result)) == (0, [])


def test_the_yaml_is_templates_and_the_workload_with_claims_in_place_of_resources(tmp_path: Path) -> None:
    """Equal claims have one template; an init container that ends first takes another one's; what the server wrote is gone."""
    sidecar = {**container("side", gpu="1"), "restartPolicy": "Always"}
    pod = spec(
        container("a", gpu="1", cpu="1"),
        container("b", gpu="1"),
        initContainers=[container("first", gpu="1"), sidecar],
    )
    made = workload("Deployment", "w", pod)
    made["metadata"] |= {"uid": "u", "resourceVersion": "7", "labels": {"app": "w"}}
    result = ask(tmp_path, {**made, "status": {"replicas": 1}}, output="yaml")
    template, patched = yaml.safe_load_all(result.stdout)
    assert template["metadata"] == {"name": "w-a-gpu", "namespace": "team"}
    assert template["spec"]["spec"]["devices"]["requests"] == [
        {"name": "devices", "exactly": {"deviceClassName": GPU}}
    ]
    assert patched["metadata"] == {"name": "w", "namespace": "team", "labels": {"app": "w"}}
    assert "status" not in patched
    inside = patched["spec"]["template"]["spec"]
    asked = {each["name"]: each["resources"] for each in (*inside["containers"], *inside["initContainers"])}
    assert asked == {
        "a": {"limits": {"cpu": "1"}, "claims": [{"name": "a-gpu"}]},
        "b": {"claims": [{"name": "b-gpu"}]},
        "first": {"claims": [{"name": "a-gpu"}]},
        "side": {"claims": [{"name": "side-gpu"}]},
    }
    assert {each["name"] for each in inside["resourceClaims"]} == {"a-gpu", "b-gpu", "side-gpu"}
    assert {each["resourceClaimTemplateName"] for each in inside["resourceClaims"]} == {
        template["metadata"]["name"]
    }


def test_every_kind_of_workload_is_read_by_its_pod(tmp_path: Path) -> None:
    """CronJobs, JobSets and pods too; a pod that a Deployment made is looked at with it."""
    pod = spec(container(**{"huawei.com/Ascend910": "1"}))
    cron = {
        "kind": "CronJob",
        "metadata": {"name": "cron"},
        "spec": {"jobTemplate": {"spec": {"template": {"spec": pod}}}},
    }
    job = {"replicas": 2, "template": {"spec": {"parallelism": 3, "template": {"spec": pod}}}}
    jobs = {
        "kind": "JobSet",
        "metadata": {"name": "set"},
        "spec": {"replicatedJobs": [job, {"template": {"spec": {"template": {"spec": pod}}}}]},
    }
    bare = {"kind": "Pod", "metadata": {"name": "bare"}, "spec": pod}
    owned = {
        "kind": "Pod",
        "metadata": {"name": "made", "ownerReferences": [{"kind": "ReplicaSet", "controller": True}]},
        "spec": pod,
    }
    many = {"kind": "List", "items": [workload("DaemonSet", "daemon", pod), cron, jobs, bare, owned]}
    found = rows(ask(tmp_path, many))
    assert [(each["kind"], each["name"], each["namespace"], each["pods"]) for each in found] == [
        ("DaemonSet", "daemon", "team", 1),
        ("CronJob", "cron", "default", 1),
        ("JobSet", "set", "default", 6),
        ("JobSet", "set", "default", 1),
        ("Pod", "bare", "default", 1),
    ]
    applied = [*yaml.safe_load_all(ask(tmp_path, jobs, output="yaml").stdout)]
    [patched] = [each for each in applied if each["kind"] == "JobSet"]
    assert NVIDIA not in json.dumps(patched)
    assert json.dumps(patched).count("resourceClaimTemplateName") == 2


def test_jobs_that_ask_for_other_counts_have_templates_of_their_own(tmp_path: Path) -> None:
    """They have the names of their JobSet and of their containers: the second template replaced the first, and its pods had too few devices."""
    jobs = [
        {"name": name, "template": {"spec": {"template": {"spec": spec(container(gpu=count))}}}}
        for name, count in (("leader", "1"), ("workers", "2"), ("more", "2"))
    ]
    jobset = {"kind": "JobSet", "metadata": {"name": "set"}, "spec": {"replicatedJobs": jobs}}
    applied = [*yaml.safe_load_all(ask(tmp_path, jobset, output="yaml").stdout)]
    counts = {
        each["metadata"]["name"]: each["spec"]["spec"]["devices"]["requests"][0]["exactly"].get("count", 1)
        for each in applied
        if each["kind"] == "ResourceClaimTemplate"
    }
    [patched] = [each for each in applied if each["kind"] == "JobSet"]
    named = [
        job["template"]["spec"]["template"]["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]
        for job in patched["spec"]["replicatedJobs"]
    ]
    assert [counts[name] for name in named] == [1, 2, 2]


def test_nodes_have_to_suit_the_pod_as_well(tmp_path: Path) -> None:
    """nodeSelector, and cpu, for as many pods as a node takes."""
    pinned = spec(container(gpu="1"), nodeSelector={"kubernetes.io/hostname": "n2"})
    large = spec(container(gpu="1", cpu="6"))
    result = ask(tmp_path, workload("Job", "pinned", pinned), workload("Job", "large", large, parallelism=2))
    one, two = rows(result)
    assert one["nodes"] == {"n2": 1}
    assert two["nodes"] == {"n1": 1}
    assert "wants 1" in two["blocked"][0]


def test_devices_that_claims_hold_are_not_free(tmp_path: Path) -> None:
    """The cluster's allocations count."""
    results = [
        {"request": "r", "driver": GPU, "pool": "n1", "device": f"device-{number}"} for number in range(2)
    ]
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "other"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": GPU}}]}},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    [found] = rows(ask(tmp_path, workload("Job", "w", spec(container(gpu="1"))), world=[*cluster(), claim]))
    assert found["nodes"] == {"n2": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "neither JSON nor YAML"),
        ("- 1", "expected an object with apiVersion and kind"),
        ("kind: Namespace\nmetadata: {name: n}", "no workload in it"),
        ("kind: Pod\nmetadata: {}\nspec: {containers: []}", "metadata.name: a Pod has no name"),
        (
            "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: x}}}]}",
            "Pod default/p: ",
        ),
        ("kind: Job\nmetadata: {name: j}\nspec: {template: 7}", "Job default/j"),
    ],
)
def test_bad_input_is_named_and_ends_with_2(tmp_path: Path, text: str, words: str) -> None:
    """One sentence on standard error, with object and field."""
    (tmp_path / "cluster").write_text(yaml.safe_dump_all(cluster()))
    (tmp_path / "w").write_text(text)
    result = CliRunner().invoke(app, ["-f", str(tmp_path / "w"), "--world", str(tmp_path / "cluster")])
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("options", [[], ["-A", "-n", "team"], ["-A", "-f", "w"], ["-A", "-o", "text"]])
def test_one_source_of_workloads_and_a_known_output_are_asked_for(options: list[str]) -> None:
    """Anything else is refused before a cluster is asked."""
    assert CliRunner().invoke(app, options).exit_code == 2


def test_the_table_names_workload_claim_place_and_obstacle(tmp_path: Path) -> None:
    """For people; a note says what else a shared GPU needs."""
    shared = workload("Job", "shared", spec(container(**{"nvidia.com/gpu.shared": "1"})))
    result = ask(tmp_path, workload("Job", "whole", spec(container(gpu="1"))), shared, output="table")
    for words in (
        "Job team/whole",
        "gpu.apportion.dev x1",
        "n1: 1",
        "sharing",
        "1 of 2 workloads would be served",
    ):
        assert words in result.stdout
