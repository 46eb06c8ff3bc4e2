"""What the chart's values do beside the features, and what the schema refuses."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from apportion.agent.devices.generic.kind import DeviceKind
from apportion.agent.devices.simulated.simulation import Simulation, load
from apportion.settings import DRIVERS
from tests.install.charts import CHART, Helm, keyed
from tests.install.rendered import drivers, options, pods

DIGEST = "sha256:" + "0123456789abcdef" * 4
TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}}
PLACED: dict[str, Any] = {
    "resources": {"requests": {"cpu": 2, "memory": "1Gi"}},
    "priorityClassName": "ours",
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "true", "effect": "NoSchedule"}],
    "affinity": AFFINITY,
}
POD_FIELDS = ("priorityClassName", "nodeSelector", "tolerations", "affinity")
REFUSED = [
    ({"opertor": {}}, "'opertor' not allowed"),
    ({"operator": {"replica": 3}}, "'replica' not allowed"),
    ({"operator": {"replicas": "3"}}, "/operator/replicas"),
    ({"operator": {"replicas": -1}}, "/operator/replicas"),
    ({"operator": {"resources": {"limit": {}}}}, "'limit' not allowed"),
    ({"operator": {"resources": {"limits": {"memory": "2 GiB"}}}}, "/operator/resources/limits/memory"),
    ({"operator": {"logFormat": "text"}}, "/operator/logFormat"),
    ({"operator": {"extraArgs": ["schedulers=a"]}}, "/operator/extraArgs/0"),
    ({"operator": {"tolerations": [{"keys": "a"}]}}, "'keys' not allowed"),
    ({"operator": {"affinity": {"nodeAfinity": {}}}}, "'nodeAfinity' not allowed"),
    ({"operator": {"extraEnv": [{"value": "x"}]}}, "'name'"),
    ({"operator": {"nodeSelector": {"a": True}}}, "/operator/nodeSelector/a"),
    ({"agent": {"replicas": 2}}, "'replicas' not allowed"),
    ({"agent": {"maxSurge": "0%"}}, "/agent/maxSurge"),
    ({"agent": {"simulation": {"card": []}}}, "'card' not allowed"),
    ({"image": {"digest": "sha256:12"}}, "/image/digest"),
    ({"image": {"repository": ""}}, "/image/repository"),
    ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
    ({"image": {"pullSecrets": ["login"]}}, "/image/pullSecrets/0"),
    ({"namespace": {"name": "x"}}, "'name' not allowed"),
    ({"networkPolicy": False}, "/networkPolicy"),
    ({"features": {"preemption": "true"}}, "/features/preemption"),
    ({"features": {"imexChannels": 4096}}, "/features/imexChannels"),
    ({"features": {"genericDevices": [{"type": "fpga"}]}}, "'driver'"),
    ({"features": {"genericDevices": [{"type": "fpga", "driver": "a'] || true"}]}}, "/driver"),
    ({"features": {"mig": True}}, "'mig' not allowed"),
    ({"features": {"web": {"port": 8090}}}, "/features/web"),
    (
        {"operator": {"resources": {"limits": {"memory": "much"}}}, "features": {"web": True}},
        "/limits/memory",
    ),
]
ODD: dict[str, dict[str, Any]] = {
    "none": {},
    "digest": {"image": {"repository": "r.example.com/a", "digest": DIGEST, "pullPolicy": "Always"}},
    "one replica": {"operator": {"replicas": 1}, "networkPolicy": {"enabled": False}},
    "placed": {"operator": PLACED, "agent": PLACED},
    "emptied": {
        name: {"resources": None, "priorityClassName": "", "tolerations": []}
        for name in ("operator", "agent")
    },
    "simulated": {"agent": {"simulation": {"cards": [{"model": "H100-80GB", "count": 2}]}}},
    "for a chart above": {"global": {"team": "a"}},
}


@pytest.fixture
def helm(helm_program: Path, tmp_path: Path) -> Helm:
    return Helm(helm_program, tmp_path)


@pytest.mark.parametrize(("values", "said"), REFUSED, ids=str)
def test_a_value_that_would_do_nothing_is_refused_by_its_name(
    helm: Helm, values: dict[str, Any], said: str
) -> None:
    """A misspelt name is an error before anything is installed."""
    ran = helm.run("template", "apportion", str(CHART), values=values)
    assert ran.returncode != 0
    assert "values don't meet the specifications of the schema" in ran.stderr
    assert said in ran.stderr


@pytest.mark.parametrize("values", ODD.values(), ids=ODD)
def test_the_chart_passes_helms_own_check(helm: Helm, values: dict[str, Any]) -> None:
    """Strict: warnings are errors."""
    assert "0 chart(s) failed" in helm.done("lint", "--strict", str(CHART), values=values)


def test_every_default_is_a_name_of_the_schema_and_every_name_has_a_default(helm: Helm) -> None:
    """values.yaml is the list of what there is to set."""
    schema = yaml.safe_load((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert set(values) == set(schema["properties"]) - {"global"}
    for name, described in schema["properties"].items():
        if name != "global":
            assert set(values[name]) == set(described["properties"])


@pytest.mark.parametrize("role", ["operator", "agent"])
def test_pods_go_where_and_get_what_the_values_say(helm: Helm, role: str) -> None:
    """For each workload by itself: the other one stays as it is."""
    before = {pod["containers"][0]["name"]: pod for pod in pods(helm.objects({}))}
    more = {"extraArgs": ["--log-format=console"], "extraEnv": [{"name": "KUBECONFIG", "value": "/x"}]}
    values = {role: {**PLACED, **more, "podLabels": {"a": "b"}, "podAnnotations": {"c": "d"}}}
    objects = helm.objects(values)
    after = {pod["containers"][0]["name"]: pod for pod in pods(objects)}
    (template,) = [
        item["spec"]["template"]
        for item in objects
        if item["kind"] in {"Deployment", "DaemonSet"} and item["metadata"]["name"] == f"apportion-{role}"
    ]
    other = "agent" if role == "operator" else "operator"
    assert after[other] == before[other]
    assert {name: after[role][name] for name in POD_FIELDS} == {name: PLACED[name] for name in POD_FIELDS}
    (container,) = after[role]["containers"]
    assert container["resources"]["requests"] == PLACED["resources"]["requests"]
    assert container["args"] == [*before[role]["containers"][0]["args"], *more["extraArgs"]]
    assert container["env"][-1:] == more["extraEnv"]
    assert template["metadata"]["labels"] == {"app.kubernetes.io/name": f"apportion-{role}", "a": "b"}
    assert template["metadata"]["annotations"] == {"c": "d"}


def test_what_is_emptied_is_gone(helm: Helm) -> None:
    """No key without a value is left in a pod."""
    for pod in pods(helm.objects(ODD["emptied"])):
        assert not {"priorityClassName", "tolerations"} & set(pod)
        assert "resources" not in pod["containers"][0]


@pytest.mark.parametrize(
    ("limits", "alone", "with_page"),
    [
        ({}, {"memory": "2Gi"}, {"memory": "4Gi"}),
        ({"cpu": 2}, {"cpu": 2, "memory": "2Gi"}, {"cpu": 2, "memory": "4Gi"}),
        ({"memory": "8Gi"}, {"memory": "8Gi"}, {"memory": "8Gi"}),
        (None, None, None),
    ],
    ids=str,
)
def test_the_page_has_memory_of_its_own_unless_somebody_says_how_much(
    helm: Helm, limits: dict[str, Any] | None, alone: dict[str, Any] | None, with_page: dict[str, Any] | None
) -> None:
    """A limit that a person has set for a large cluster is not lowered by the page's."""
    for page, wanted in ((False, alone), (True, with_page)):
        values = {"operator": {"resources": {"limits": limits}}, "features": {"web": page}}
        (operator,) = [
            pod["containers"][0]
            for pod in pods(helm.objects(values))
            if pod["containers"][0]["name"] == "operator"
        ]
        assert operator["resources"].get("limits") == wanted
        assert ("--web-port=8090" in operator["args"]) is page


def test_an_image_by_digest_goes_before_the_tag(helm: Helm) -> None:
    """From one's own registry, with its login."""
    values = {"image": {**ODD["digest"]["image"], "tag": "v9", "pullSecrets": [{"name": "login"}]}}
    for pod in pods(helm.objects(values)):
        (container,) = pod["containers"]
        assert container["image"] == f"r.example.com/a@{DIGEST}"
        assert container["imagePullPolicy"] == "Always"
        assert pod["imagePullSecrets"] == [{"name": "login"}]


def test_one_replica_has_no_budget_that_would_hold_up_every_drain(helm: Helm) -> None:
    """A PodDisruptionBudget of one for one pod forbids its eviction."""
    assert ("PodDisruptionBudget", "apportion-operator") in keyed(helm.objects({}))
    there = keyed(helm.objects(ODD["one replica"]))
    assert there["Deployment", "apportion-operator"]["spec"]["replicas"] == 1
    assert not {"PodDisruptionBudget", "NetworkPolicy"} & {kind for kind, _ in there}


def test_simulated_cards_reach_the_agents_and_new_ones_restart_them(helm: Helm, tmp_path: Path) -> None:
    """The agent reads what the ConfigMap holds; its name follows its content."""
    names = set()
    for count in (2, 3):
        simulation = {
            "cards": [{"model": "H100-80GB", "count": count}],
            "nics": [{"name": "a", "pcieRoot": "p"}],
        }
        objects = helm.objects({"agent": {"simulation": simulation}})
        (config,) = [item for item in objects if item["kind"] == "ConfigMap"]
        file = tmp_path / "simulation.yaml"
        file.write_text(config["data"]["simulation.yaml"], encoding="utf-8")
        assert load(file)[0] == Simulation.model_validate(simulation)
        (agent,) = [pod for pod in pods(objects) if pod["containers"][0]["name"] == "agent"]
        (volume,) = [each for each in agent["volumes"] if each["name"] == "simulation"]
        assert volume["configMap"]["name"] == config["metadata"]["name"]
        names.add(config["metadata"]["name"])
        env = {each["name"]: each.get("value") for each in agent["containers"][0]["env"]}
        mounts = {each["mountPath"] for each in agent["containers"][0]["volumeMounts"]}
        assert (env["BACKEND"], env["SIMULATION"] in mounts) == ("simulated", True)
    assert len(names) == 2


def test_the_schema_knows_what_a_simulation_has() -> None:
    """A field that the agent would read is not refused before."""
    schema = yaml.safe_load((CHART / "values.schema.json").read_text(encoding="utf-8"))
    known = schema["properties"]["agent"]["properties"]["simulation"]["properties"]
    assert set(known) == {field.alias for field in Simulation.model_fields.values()}


def test_drivers_of_generic_devices_get_their_rights_from_the_devices(helm: Helm) -> None:
    """Nobody writes a driver three times; numbers stay numbers."""
    devices = [
        {"type": f"k{n}", "driver": f"k{n % 2}.example.com", "match": {"pci": {"vendor": "0x10ee"}},
         "capacity": {"memory": {"file": "m", "scale": 1_000_000_000}}}
        for n in range(3)
    ]  # fmt: skip
    objects = helm.objects({"features": {"genericDevices": devices}})
    for known in drivers(objects).values():
        assert known == DRIVERS | {"k0.example.com", "k1.example.com"}
    (config,) = [item for item in objects if item["kind"] == "ConfigMap"]
    read = yaml.safe_load(config["data"]["devices.yaml"])["devices"]
    assert read == devices
    assert [DeviceKind.from_json(raw).type for raw in read] == ["k0", "k1", "k2"]


def test_options_in_the_arguments_exist(helm: Helm) -> None:
    """With every feature on."""
    features = {
        "nvidiaNames": True,
        "imexChannels": 1,
        "genericDevices": [{"type": "a", "driver": "a.example.com"}],
    }
    for pod in pods(helm.objects({"features": features})):
        role, *arguments = pod["containers"][0]["args"]
        assert {argument.partition("=")[0] for argument in arguments} <= options(role)
