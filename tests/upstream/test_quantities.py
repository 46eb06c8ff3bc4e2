"""Amounts as apimachinery reads them (`ParseQuantity`): what was asked of it once, and what holds for all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.dra.quantity import NANO, Quantity
from apportion.errors import BrokenInput

MOST = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("7Ei", 7 * 2**60 * NANO),
        ("8Ei", MOST * NANO),
        ("-9Ei", -MOST * NANO),
        ("70293137585847195.Ki", MOST * NANO),
        ("9223372036854775807", MOST * NANO),
        ("9223372036854775808", 2**63 * NANO),
        ("9223372036854775807E", MOST * 10**18 * NANO),
        ("1e30", 10**30 * NANO),
        ("0.0000000001", 1),
        ("-0.0000000001", -1),
        ("k", 0),
        (".", 0),
        ("-.Ki", 0),
    ],
)
def test_an_amount_is_what_apimachinery_reads(text: str, nano: int) -> None:
    """With a binary suffix it is capped; a device of 16Ei serves a request for 9Ei, which is as much."""
    assert Quantity.parse(text).nano == nano


@pytest.mark.parametrize(
    ("text", "printed"),
    [("0.0001Ki", "102400u"), (".000601740909Ki", "616182691n"), (".5Ki", "512"), ("1536Ki", "1536Ki")],
)
def test_a_binary_amount_of_less_than_one_is_a_decimal_one(text: str, printed: str) -> None:
    """As apimachinery prints it, so that an amount that we write is not written anew."""
    found = Quantity.parse(text)
    assert str(found) == printed
    assert found.format == ("DecimalSI" if found.nano < NANO else "BinarySI")


@pytest.mark.parametrize("text", ["", "e", "Ei3", "1..2", "--1", "1k2", " 1", "1 ", "\u0661"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    """The API server stores none of these."""
    with pytest.raises(BrokenInput):
        Quantity.parse(text)


@given(st.integers(-(2**80), 2**80))
def test_whole_amounts_are_exact_at_any_size(value: int) -> None:
    """No amount goes through a floating-point number."""
    assert Quantity.parse(str(value)).nano == value * NANO
    assert Quantity.parse(f"{value}e9").value == value * 10**9
