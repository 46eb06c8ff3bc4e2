"""Schedule: when windows of a DefragPolicy open, by its cron expression and time zone.

In: the policy's spec, the time. Out: the window that is open, and when the next one opens; BrokenInput where the spec is no schedule. A clock that is put
forward moves a time that it leaves out to the first one after; one that is put back does not open a window twice (cronsim).
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from apportion.api.defrag import DefragPolicySpec
from apportion.errors import BrokenInput

_FIELDS = 5
"""Of a cron expression; cronsim also takes six, with seconds."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule that can be followed."""

    expression: str
    zone: ZoneInfo
    window: timedelta

    @classmethod
    def of(cls, spec: DefragPolicySpec, now: datetime) -> "Schedule":
        """Read the schedule of a policy; one that never comes after `now` is none. Raises BrokenInput, which names the field."""
        try:
            zone = ZoneInfo(spec.time_zone)
        except (OSError, ValueError, KeyError):
            raise BrokenInput(f"{spec.time_zone!r} is no time zone", field="spec.timeZone") from None
        if len(spec.schedule.split()) != _FIELDS:
            raise BrokenInput(
                f"{spec.schedule!r} has not the five fields of a cron expression", field="spec.schedule"
            )
        if not spec.window:
            raise BrokenInput("no window would ever be open for 0s", field="spec.window")
        made = cls(spec.schedule, zone, spec.window)
        try:
            opens = made.after(now)
        except CronSimError as error:
            raise BrokenInput(
                f"{spec.schedule!r} is no cron expression: {error}", field="spec.schedule"
            ) from None
        if opens is None:
            raise BrokenInput(f"{spec.schedule!r} never comes", field="spec.schedule")
        return made

    def opened(self, now: datetime) -> datetime | None:
        """Return when the window opened that is open now, the last one of several; None: none is open."""
        # The last time before a moment is looked for, and a window that opens now is open.
        # The second is added in UTC: in a zone whose clock is put back it would be one of the first of two equal hours.
        moment = now.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)
        found = next(CronSim(self.expression, moment.astimezone(self.zone), reverse=True), None)
        return found.astimezone(UTC) if found is not None and now - found < self.window else None

    def after(self, now: datetime) -> datetime | None:
        """Return when the next window opens; None: none ever will."""
        found = next(CronSim(self.expression, now.astimezone(self.zone)), None)
        return found.astimezone(UTC) if found is not None else None
