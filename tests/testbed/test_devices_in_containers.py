"""What the checker says of devices that containers have, by the kubelets' records."""

from types import SimpleNamespace

import pytest

from testbed.api import Json
from testbed.checker import Checker
from testbed.kubelet.podrecord import PodRecord
from tests.testbed.violationobjects import DRIVER, NODE, WHOLE, claim, share, slices


@pytest.mark.parametrize(
    ("claims", "seen"),
    [
        ([claim("a", WHOLE, pod="a"), share("b", "10Gi", pod="b")], True),
        ([share("a", "50Gi", pod="a"), share("b", "40Gi", pod="b")], True),
        ([share("a", "40Gi", pod="a"), share("b", "40Gi", pod="b")], False),
        ([claim("a", WHOLE, pod="a"), claim("b", WHOLE, pod="b", adminAccess=True)], False),
    ],
)
def test_containers_that_have_more_of_a_device_than_there_is_at_one_time_are_seen(
    claims: list[Json], *, seen: bool
) -> None:
    """Also after one of the claims has gone: its containers ran on."""
    key = DRIVER, NODE, WHOLE
    records = {
        pod: PodRecord("team", pod, pod, 0.0, 1.0, 2.0, devices={f"uid-{pod}": frozenset({key})})
        for pod in ("a", "b")
    }
    checker = Checker(SimpleNamespace(kubelets={NODE: SimpleNamespace(records=records)}))  # type: ignore[arg-type]
    for piece in slices():
        checker._slice("s", piece)
    for each in claims:
        checker._claim(each["metadata"]["uid"], each)
        checker._claim(each["metadata"]["uid"], None)

    assert bool(checker.used_by_two_containers()) is seen
    assert checker.given_others() == []
