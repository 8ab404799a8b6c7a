"""Times: the engine's nanoseconds and versions, Python's datetimes."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

from .errors import InvalidError

__all__ = ["Time", "Version", "nanos", "of_nanos", "text_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Version(int):
    """Version of a commit: milliseconds since 1970 in the upper 48 bits, a counter in the lower 16.

    Versions compare in the order of commits. ``as_of=`` accepts them.
    """

    @property
    def time(self) -> datetime:
        """The time in UTC, to the millisecond."""
        return _EPOCH + timedelta(milliseconds=int(self) >> 16)

    @property
    def logical(self) -> int:
        """The counter within the millisecond."""
        return int(self) & 0xFFFF

    def __str__(self) -> str:
        text = self.time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return f"{text}~{self.logical}" if self.logical else text

    def __repr__(self) -> str:
        return f"Version('{self}')"


Time = str | datetime | date | Version | int | None


def nanos(when: datetime) -> int:
    """Returns the nanoseconds since 1970 of a datetime with a time zone."""
    if when.tzinfo is None:
        raise InvalidError(
            f"{when!r} has no time zone: give tzinfo, as in datetime.now(timezone.utc)"
        )
    since = when - _EPOCH
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000


def of_nanos(value: int) -> datetime:
    """Returns the datetime (UTC) of nanoseconds since 1970, truncated to microseconds."""
    return _EPOCH + timedelta(microseconds=value // 1000)


def text_of(when: Time) -> str | None:
    """Formats a time for the engine."""
    if when is None or isinstance(when, str):
        return when
    if isinstance(when, datetime):
        nanos(when)
        return when.isoformat()
    if isinstance(when, date):
        return when.isoformat()
    return f"#{int(when)}"
