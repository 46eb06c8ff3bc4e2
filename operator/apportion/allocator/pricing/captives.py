"""captives(): the demand that can only be served by the devices of one set, while its market fills.

In: the recent demand, its prices, the markets of sets. Out: per set, what is expected of that demand.
"""

from typing import NamedTuple

from apportion.allocator.pricing.demandmix import DemandMix
from apportion.allocator.pricing.markets import Markets
from apportion.allocator.pricing.prices import DemandPrices


class Captive(NamedTuple):
    """The demand confined to one set, while its market fills."""

    share: float
    """Its share of the market's demand."""
    variance: float
    """Variance of the devices that it takes, per device left in the market."""
    per_claim: float
    """Mean number of devices that one claim takes in the market."""


def captives(size: int, mix: DemandMix, prices: DemandPrices, markets: Markets) -> list[Captive]:
    """Return the captive demand of each set; `size`: how many sets there are."""
    numbers = range(size)
    demand = [0.0] * size
    squares = [0.0] * size
    claims = [0] * size
    for entry in mix:
        number = prices.set_of(entry.alternative)
        if number is not None and entry.alternative is not None:
            taken = entry.count * prices.parts.get(entry.alternative, 1.0)
            claims[number] += entry.weight
            demand[number] += entry.weight * taken
            squares[number] += entry.weight * taken * taken
    of = markets.markets
    found: list[Captive] = []
    for number in numbers:
        market = [other for other in numbers if of[other] == of[number]]
        # The recent demand may have no request in this market.
        total = sum(demand[other] for other in market) or 1
        share = sum(demand[other] for other in market if markets.inside(other, number)) / total
        spread = sum(squares[other] for other in market) / total
        per_claim = total / (sum(claims[other] for other in market) or 1)
        found.append(Captive(share, spread * share * (1 - share), per_claim))
    return found
