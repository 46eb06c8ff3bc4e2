"""What the fake driver believes about callers, and what the backend makes of it: 310P, 910A, 910B, A3, 310B and 950."""

import re
from ctypes import byref, c_int

import pytest

from apportion.agent.devices import models
from apportion.agent.devices.ascend.session import Session
from apportion.agent.devices.values import UNCUT, CardKind, PartitionPlace, Placement
from apportion.errors import Unsupported
from testbed.fakes.dcmi import layout
from testbed.fakes.dcmi.permissions import PERMISSIONS
from tests.agent.ascend.nodes import Nodes

PLACES = (layout.HOST, layout.PRIVILEGED, layout.CONTAINER, layout.NOT_ROOT)
NPUS = [name for name in models.names() if models.model(name).kind is CardKind.NPU]
MODE, RECOVER = "dcmi_get_vdevice_mode", "dcmi_get_vnpu_config_recover_mode"


def test_every_belief_about_a_caller_names_its_source() -> None:
    """A file and lines of the vendor's, or that there is none."""
    for row in PERMISSIONS:
        assert re.match(r"dcmi_\w+/src/dcmi\w+\.c:\d+-\d+|source: none", row.source), row


@pytest.mark.parametrize(
    ("model", "mode", "recover"),
    [
        ("310P", (0, -8002, -8002, -8002), (0, -8002, -8002, -8002)),
        ("910A", (0, -8002, -8002, -8002), (0, -8002, -8002, -8002)),
        ("910B4", (0, 0, -8002, -8002), (0, 0, -8002, -8002)),
        ("A3", (0, -8002, -8002, -8002), (-8255, -8255, -8255, -8255)),
        ("310B", (0, -8002, -8002, -8002), (-8255, -8255, -8255, -8255)),
    ],
)
def test_the_fake_answers_each_place_as_the_real_library_does(
    node_with: Nodes, model: str, mode: tuple[int, ...], recover: tuple[int, ...]
) -> None:
    """Root on the host, in a privileged and in a plain container, and somebody who is not root."""
    node = node_with([model])
    for place, *codes in zip(PLACES, mode, recover, strict=True):
        node.fake.call_from(place)
        asked = [Session(node.root).ask(call, byref(c_int())) for call in (MODE, RECOVER)]
        assert asked == codes, (model, place)


@pytest.mark.parametrize("place", [layout.HOST, layout.PRIVILEGED], ids=["host", "privileged"])
@pytest.mark.parametrize("model", NPUS)
def test_every_model_with_templates_is_cut_by_root_on_the_host_and_in_a_privileged_container(
    node_with: Nodes, model: str, place: int
) -> None:
    """A library that does not tell its mode does not keep from cutting."""
    node = node_with([model])
    node.fake.call_from(place)
    (card,) = node.backend.devices()
    assert UNCUT not in card.attributes
    made = node.backend.create(PartitionPlace("npu-0", card.profiles[0].name, Placement(100, 1)))
    assert [row.id for row in node.fake.vnpus()] == [100]
    node.backend.destroy(made)
    assert node.fake.vnpus() == ()


def test_where_no_mode_is_shown_the_refusal_to_cut_names_the_right_that_is_missing(node_with: Nodes) -> None:
    """An agent that is not root: on a 310P only the creation shows it."""
    node = node_with(["310P"])
    node.fake.call_from(layout.NOT_ROOT)
    (card,) = node.backend.devices()
    assert card.profiles
    with pytest.raises(
        Unsupported, match="vir01 at 100 of npu-0: dcmi_create_vdevice: not permitted: it needs root"
    ):
        node.backend.create(PartitionPlace("npu-0", "vir01", Placement(100, 1)))
