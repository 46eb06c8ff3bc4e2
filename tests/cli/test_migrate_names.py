"""Names of `apportion migrate`: of MIG profiles with attributes, and of claims and templates, no two of which may be one."""

from pathlib import Path

import pytest
import yaml

from tests.cli.migrating import GPU, ask, cluster, container, rows, spec, workload


@pytest.mark.parametrize(
    ("resource", "profile"),
    [
        ("mig-1g.10gb", "1g.10gb"),
        ("mig-1g.10gb.me", "1g.10gb+me"),
        ("mig-1g.10gb.me.all", "1g.10gb+me.all"),
        ("mig-1g.24gb.gfx", "1g.24gb+gfx"),
        ("mig-1g.24gb-me", "1g.24gb-me"),
    ],
)
def test_a_mig_device_is_asked_for_by_the_name_that_its_driver_gives_it(
    tmp_path: Path, resource: str, profile: str
) -> None:
    """NVIDIA's plugin writes a point for the plus; a point of the profile stays one."""
    [found] = rows(
        ask(tmp_path, workload("Deployment", "d", spec(container(**{f"nvidia.com/{resource}": "1"}))))
    )
    assert found["asks"][0]["selectors"] == [f'device.attributes["gpu.apportion.dev"].profile == "{profile}"']


@pytest.mark.parametrize("length", [4, 63])
def test_claims_of_a_pod_have_names_of_their_own(tmp_path: Path, length: int) -> None:
    """They are cut to 63 characters, and what a resource has between letters and digits becomes a dash."""
    resources = {f"nvidia.com/mig-1g.24gb{each}": "1" for each in ("", ".me", "-me", ".me.all")}
    pod = spec(*(container(name * length, **resources) for name in "ab"))
    result = ask(tmp_path, workload("Deployment", "d" * 250, pod), output="yaml")
    *templates, patched = yaml.safe_load_all(result.stdout)
    inside = patched["spec"]["template"]["spec"]
    names = [each["name"] for each in inside["resourceClaims"]]
    assert len({*names}) == 8
    assert max(map(len, names)) <= 63
    asked = [claim["name"] for each in inside["containers"] for claim in each["resources"]["claims"]]
    assert sorted(asked) == sorted(names)
    expressions = {
        each["metadata"]["name"]: each["spec"]["spec"]["devices"]["requests"][0]["exactly"]["selectors"][0][
            "cel"
        ]
        for each in templates
    }
    assert len({each["expression"] for each in expressions.values()}) == 4
    assert {each["resourceClaimTemplateName"] for each in inside["resourceClaims"]} == expressions.keys()


def test_a_claim_that_the_pod_has_already_keeps_its_name_alone(tmp_path: Path) -> None:
    """The API server refuses two claims of one name in a pod."""
    own = [{"name": "main-gpu", "resourceClaimTemplateName": "own"}]
    given = workload("Deployment", "trains", spec(container(gpu="1"), resourceClaims=own))
    *_, patched = yaml.safe_load_all(ask(tmp_path, given, output="yaml").stdout)
    inside = patched["spec"]["template"]["spec"]
    assert [each["name"] for each in inside["resourceClaims"]] == ["main-gpu", "main-gpu-2"]
    assert inside["containers"][0]["resources"]["claims"] == [{"name": "main-gpu-2"}]


def test_who_holds_what_a_workload_asks_for_is_a_name(tmp_path: Path) -> None:
    """A claim of the cluster, and a workload that was placed before; not the UID by which the allocator knows a claim."""
    uid = "b2dc8446-0f3e-4f6a-9f0e-3d2c1b0a9e8d"
    held = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "train", "namespace": "team", "uid": uid},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": GPU}}]}},
        "status": {"allocation": {
            "devices": {"results": [{"request": "r", "driver": GPU, "pool": "n2", "device": "device-0"}]},
            "nodeSelector": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]},
        }},
    }  # fmt: skip
    first = workload("Deployment", "first", spec(container(gpu="2")))
    others = [
        workload("Deployment", name, spec(container(gpu="1"), nodeSelector={"kubernetes.io/hostname": name}))
        for name in ("n1", "n2")
    ]
    result = ask(tmp_path, first, *others, world=[*cluster(), held])
    assert result.exit_code == 1
    placed, *refused = rows(result)
    assert placed["nodes"] == {"n1": 1}
    assert uid not in result.stdout
    holders = ("Deployment team/first #1", "claim team/train")
    for each, holder in zip(refused, holders, strict=True):
        assert f"0 not held, held by {holder}" in each["blocked"][0]
