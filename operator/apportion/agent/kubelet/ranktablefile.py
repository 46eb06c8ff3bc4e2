"""RANK_TABLE_FILE: whether a claim's containers shall take the rank table of a request for that of their whole job.

In: an allocated claim, its devices, why requests have no table. Out: the request, or BrokenInput naming field and reason. Frameworks that
find the variable build their communicators by the table and ask nobody (torch_npu, RANK_TABLE_FILE.md; CANN, "Rank Table Configuration"):
only who writes the claim knows that the job has no other pods. HCCL needs no further variable: HCCL_WHITELIST_DISABLE is 1 by default (CANN,
environment variables of HCCL).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Final

from apportion.agent.kubelet.configuration import entries
from apportion.api.deviceconfig import NpuConfig
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput

VARIABLE: Final = "RANK_TABLE_FILE"


def table_request(
    claim: Claim,
    driver: str,
    results: Sequence[DeviceResult],
    cards: Collection[str],
    why_none: Callable[[Sequence[DeviceResult]], str],
) -> str:
    """Return the request whose table the variable leads to, "" without one; of several parameters for a request the last counts.

    `cards` are the node's; `why_none` says why devices of a request have no table, "" when they have. Raises BrokenInput where the claim asks for it and there
    is none, or more than one.
    """
    by_request: dict[str, list[DeviceResult]] = defaultdict(list)
    for result in results:
        by_request[result.request.split("/")[0]].append(result)
    asked: dict[str, tuple[str, bool]] = {}
    for entry in entries(claim, driver, results, cards):
        if isinstance(entry.config, NpuConfig):
            for request, devices in by_request.items():
                if any(entry.serves(result) for result in devices):
                    asked.pop(request, None)
                    if entry.config.rank_table:
                        asked[request] = f"{entry.field}.rankTable", entry.named
    lacking = {request: why for request in asked if (why := why_none(by_request[request]))}
    found = [request for request in asked if request not in lacking]
    for request, why in lacking.items():
        field, named = asked[request]
        if named or not found:
            raise BrokenInput(f"request {request} has no rank table: {why}", field=field)
    if len(found) > 1:
        raise BrokenInput(
            f"{VARIABLE} leads to one table, and requests {', '.join(found)} have one each",
            field=asked[found[-1]][0],
        )
    return next(iter(found), "")
