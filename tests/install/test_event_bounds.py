"""The rule about agents' Events, by its own expressions: an agent writes Events in its own name, about its own node's objects."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from apportion.cel import compile_selector
from apportion.dra.device import Device

POLICY = "agent-events.apportion.dev"
FILE = Path(__file__).parents[2] / "manifests/base/agent-bounds.yaml"
NODE = "authentication.kubernetes.io/node-name"
OURS = "rack-1"
AGENT: dict[str, Any] = {"source": {"component": "apportion-agent"}, "reportingComponent": "apportion-agent"}
KUBELET: dict[str, Any] = {"source": {"component": "kubelet"}, "reportingComponent": ""}


def event(kind: str = "Node", name: str = OURS, **fields: Any) -> dict[str, Any]:
    """Return an Event about an object, as the API server shows it to a policy."""
    return {"involvedObject": {"kind": kind, "name": name}, **AGENT, **fields}


def literal(value: Any) -> str:
    """Return a JSON value as CEL has it."""
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{json.dumps(key)}: dyn({literal(each)})" for key, each in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(f"dyn({literal(each)})" for each in value) + "]"
    return json.dumps(value)


def admits(new: dict[str, Any], old: dict[str, Any] | None = None, namespace: str = "default") -> bool:
    """Evaluate all validations of the policy for an agent of our node; `old`: the Event that it changes."""
    documents = yaml.safe_load_all(FILE.read_text())
    (policy,) = (
        each["spec"]
        for each in documents
        if (each["kind"], each["metadata"]["name"]) == ("ValidatingAdmissionPolicy", POLICY)
    )
    request = {
        "operation": "CREATE" if old is None else "UPDATE",
        "namespace": namespace,
        "userInfo": {"extra": {NODE: [OURS]}},
    }
    variables = ", ".join(
        f"{json.dumps(row['name'])}: dyn({row['expression']})" for row in policy["variables"]
    )
    for row in policy["validations"]:
        text = f"cel.bind(variables, {{{variables}}}, {row['expression']})"
        for name, value in (("oldObject", old), ("object", new), ("request", request)):
            text = f"cel.bind({name}, dyn({literal(value)}), {text})"
        if not compile_selector(text).match(Device(driver="d", pool="p", name="n")):
            return False
    return True


@pytest.mark.parametrize(
    "new",
    [
        event(),
        event("Partition", f"{OURS}-gpu-0-mig-1g10gb-19-3"),
        event("Partition", f"{OURS}-npu-0-vir05-1"),
    ],
)
def test_an_agent_writes_events_about_its_node_and_its_partitions(new: dict[str, Any]) -> None:
    """Makes them, and changes its own."""
    assert admits(new)
    assert admits(new, old=new)


@pytest.mark.parametrize(
    "new",
    [
        event(name="rack-2"),
        event("Pod"),
        event("Partition", "rack-2-gpu-0-mig-1g10gb-19-3"),
        # Of a node whose name begins with ours.
        event("Partition", "rack-1-b-gpu-0-mig-1g10gb-19-3"),
        event("Partition", "rack-1-gpu-b-gpu-0-mig-1g10gb-19-3"),
        event("Partition", "rack-1-npu-gpu-0-mig-1g10gb-19-3"),
        event("Partition", "rack-1-gpu-1-npu-0-vir05-1"),
        event(related={"kind": "Pod", "namespace": "team", "name": "p"}),
        event(**KUBELET),
        event(reportingComponent="kubelet"),
    ],
)
def test_an_agent_writes_no_event_about_others_or_in_the_name_of_others(new: dict[str, Any]) -> None:
    """Who has an agent's token could tell people anything of any object, as kubelet."""
    assert not admits(new)
    assert not admits(new, old=event())


@pytest.mark.parametrize("old", [event(name="rack-2"), event(**KUBELET)])
def test_an_agent_changes_no_event_of_others(old: dict[str, Any]) -> None:
    """What kubelet says of the node stays as it said it."""
    assert not admits(event(), old=old)


def test_an_agent_writes_no_event_in_the_namespace_of_a_tenant() -> None:
    """Its objects have no namespace."""
    assert not admits(event(), namespace="team")
