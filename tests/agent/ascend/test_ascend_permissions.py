"""What the fake driver believes about callers, and what the backend makes of it: 310P, 910A, 910B, A3, 310B and 950."""

import re
from ctypes import byref, c_int

import pytest

from apportion.agent.devices.ascend.session import Session
from testbed.fakes.dcmi import layout
from testbed.fakes.dcmi.permissions import PERMISSIONS
from tests.agent.ascend.nodes import Nodes

PLACES = (layout.HOST, layout.PRIVILEGED, layout.CONTAINER, layout.NOT_ROOT)
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
