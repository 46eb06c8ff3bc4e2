from pathlib import Path

from apportion.agent.proto import dra_v1_pb2, dra_v1beta1_pb2, registration_pb2
from testbed.messages import ROOT, generate


def test_regenerating_the_messages_changes_nothing(tmp_path: Path) -> None:
    """The committed modules are what the .proto files say."""
    for made in generate(tmp_path):
        committed = ROOT / made.relative_to(tmp_path)
        assert committed.read_text() == made.read_text(), f"{committed.name} is stale: run `make proto`"


def test_the_services_have_the_names_that_the_kubelet_calls() -> None:
    """A client finds a method by package, service and method name, so these are the interface."""
    services = {
        f"{service.full_name}/{method.name}"
        for module in (registration_pb2, dra_v1_pb2, dra_v1beta1_pb2)
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert services == {
        "pluginregistration.Registration/GetInfo",
        "pluginregistration.Registration/NotifyRegistrationStatus",
        "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources",
        "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources",
        "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources",
        "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodeUnprepareResources",
    }
