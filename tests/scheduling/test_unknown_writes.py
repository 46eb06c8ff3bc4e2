"""Writes of allocations whose answer is late, lost or no answer, on a real API server behind a faulty proxy."""

import asyncio

import pytest

from testbed.eventually import eventually
from testbed.faultyproxy import Fault, Rule
from tests.scheduling.allocating import HELD, STATUS, Allocating

gives_up = pytest.mark.parametrize("patience", [5.0])
"""Seconds after which the client gives up, where the test waits for that: all other requests are answered sooner."""


async def test_an_answer_that_comes_after_its_echo_and_the_take_back_charges_nothing(
    allocating: Allocating,
) -> None:
    """The watch is faster than the answer in some of all writes; the device would be lost until the restart."""
    allocating.proxy.rules[:] = [Rule(Fault.HOLD_ANSWER, "PATCH", STATUS, seconds=HELD)]
    allocating.begin()
    await eventually(allocating.see, lambda claim: claim.allocation is not None)
    assert allocating.charged
    await allocating.take_back()
    await allocating.see()
    assert not allocating.charged
    assert len(allocating.world.snapshot.deallocations) == 1
    allocating.proxy.let_go()
    await allocating.writes.finished()
    assert not allocating.charged
    assert not len(allocating.world.snapshot.assumed)


async def test_a_late_answer_says_nothing_about_a_newer_decision(allocating: Allocating) -> None:
    """The claim was taken back and decided anew before the first write was answered, and that answer is lost."""
    allocating.proxy.rules[:] = [
        Rule(fault, "PATCH", STATUS, seconds=HELD) for fault in (Fault.HOLD_ANSWER, Fault.LOSE_ANSWER)
    ]
    allocating.begin()
    await eventually(allocating.see, lambda claim: claim.allocation is not None)
    await allocating.take_back()
    await allocating.see()
    allocating.proxy.rules[:] = [Rule(Fault.HOLD_REQUEST, "PATCH", STATUS, seconds=HELD)]
    allocating.begin()
    allocating.proxy.let_go()
    await eventually(allocating.holds_request)
    await asyncio.sleep(0.2)
    assert allocating.charged
    allocating.proxy.let_go()
    await allocating.writes.finished()
    assert (await allocating.see()).allocation is not None
    assert allocating.charged


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.FAIL, Fault.GARBLE])
async def test_a_write_that_was_carried_out_unheard_keeps_its_devices(
    allocating: Allocating, fault: Fault
) -> None:
    """The connection breaks, the server says 500, or a gateway answers with a page of its own."""
    await allocating.write(fault)
    assert allocating.charged
    assert (await allocating.see()).allocation is not None
    assert allocating.charged
    assert not len(allocating.world.snapshot.assumed)


@gives_up
async def test_a_write_that_may_come_late_keeps_its_devices(allocating: Allocating) -> None:
    """The client gave up, the request did not: it is carried out afterwards."""
    await allocating.write_unanswered(Fault.HOLD_REQUEST)
    assert (await allocating.see()).allocation is None
    assert allocating.charged
    allocating.proxy.let_go()
    await eventually(allocating.see, lambda claim: claim.allocation is not None)
    assert allocating.charged
    assert not len(allocating.world.snapshot.assumed)


@gives_up
async def test_a_write_that_was_withdrawn_is_refused_when_it_comes(allocating: Allocating) -> None:
    """The claim moves on from the version on which the allocation depends; then its devices are free."""
    await allocating.write_unanswered(Fault.HOLD_REQUEST)
    await allocating.withdraw()
    assert allocating.charged, "the watch has not shown it yet"
    assert (await allocating.see()).allocation is None
    assert not allocating.charged
    allocating.proxy.let_go()
    await eventually(allocating.held_request_ended)
    assert (await allocating.see()).allocation is None


async def test_a_request_that_got_lost_holds_its_devices_only_until_it_is_withdrawn(
    allocating: Allocating,
) -> None:
    """Nobody else writes to the claim, so that nothing but our withdrawal tells; the claim can then be served."""
    await allocating.write_unanswered(Fault.DROP_REQUEST)
    assert allocating.charged
    await allocating.withdraw()
    await allocating.see()
    assert not allocating.charged
    await allocating.write()
    assert (await allocating.see()).allocation is not None


async def test_a_replica_that_lost_the_lease_withdraws_once_it_leads(allocating: Allocating) -> None:
    """It writes nothing meanwhile; what another replica did to the claim it sees."""
    await allocating.write_unanswered(Fault.DROP_REQUEST)
    allocating.leads = False
    before = len(allocating.proxy.requests)
    await allocating.writes.finished()
    assert len(allocating.proxy.requests) == before
    assert allocating.charged
    allocating.leads = True
    await allocating.withdraw()
    await allocating.see()
    assert not allocating.charged


@gives_up
async def test_nothing_may_be_carried_out_after_the_end(allocating: Allocating) -> None:
    """Another replica leads as soon as this one has ended: a write that comes late is refused by then."""
    await allocating.write(Fault.HOLD_REQUEST)
    assert not allocating.writes.unknown
    allocating.proxy.let_go()
    await eventually(allocating.held_request_ended)
    assert (await allocating.see()).allocation is None


async def test_a_lost_answer_of_our_own_clearing_is_no_refusal_of_the_node(allocating: Allocating) -> None:
    """What we cleared ourselves excludes no node, whether or not the answer arrives."""
    await allocating.write()
    claim = await allocating.see()
    allocating.proxy.rules[:] = [Rule(Fault.LOSE_ANSWER, "PATCH", STATUS, times=1)]
    allocating.writes.clear(claim, "nobody wants it", "unwanted")
    await allocating.writes.finished()
    assert (await allocating.see()).allocation is None
    assert not allocating.charged
    assert [event.is_refusal_for("any") for event in allocating.world.snapshot.deallocations] == [False]
