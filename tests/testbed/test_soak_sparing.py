"""Which operators a soak kills."""

from testbed.soak.disturbances import mortal


def test_one_operator_lives_through_the_second_half() -> None:
    """By its memory growth is told from tables that fill; the leader is killed often enough in the first half."""
    assert mortal(("operator-0", "operator-1"), 0.0) == ("operator-0", "operator-1")
    assert mortal(("operator-0", "operator-1"), 0.49) == ("operator-0", "operator-1")
    assert mortal(("operator-0", "operator-1"), 0.5) == ("operator-0",)
    assert mortal(("operator-0", "operator-1"), 1.2) == ("operator-0",)
