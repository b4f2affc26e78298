"""Axes of drawings: where a value lies on paper, and which round numbers stand at the side."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """Values from `low` to `high`, drawn from `start` to `end` (which may be the smaller: y grows downwards in SVG).

    With `log`, equal ratios have equal lengths.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Where a value lies; what lies outside is drawn at the border."""
        low, high, value = (self._scaled(v) for v in (self.low, self.high, value))
        share = 0.5 if high == low else (value - low) / (high - low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def _scaled(self, value: float) -> float:
        return math.log(max(value, 1e-30)) if self.log else value

    def ticks(self, most: int = 4) -> list[float]:
        """Round numbers within the axis: as many as there can be, `most` at most."""
        # Within a factor of three, round steps read better than round ratios.
        if self.log and self.high > 3 * self.low:
            return _log_ticks(self.low, self.high, most)
        steps = (base * 10.0**power for power in range(-12, 13) for base in (1, 2, 2.5, 5))
        for step in steps:
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            if last - first + 1 <= most:
                return [round(k * step, 12) for k in range(first, last + 1)]
        return []


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    # From the finest set of digits to the coarsest, the first that is not too many.
    for digits in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
        powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
        ticks = [round(d * 10.0**p, 12) for p in powers for d in digits if low <= d * 10.0**p <= high]
        if len(ticks) <= most:
            return ticks
    return ticks[:: math.ceil(len(ticks) / most)]


def span(values: Iterable[float], log: bool = False, margin: float = 0.06) -> tuple[float, float]:
    """The least and greatest of the finite values, with a margin; (0, 1) if there is none."""
    found = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    if not found:
        return (0.1, 1.0) if log else (0.0, 1.0)
    low, high = min(found), max(found)
    if log:
        room = (high / low) ** margin if high > low else 1.1
        return low / room, high * room
    room = (high - low) * margin or abs(high) * margin or 0.5
    return low - room, high + room


def short(value: float) -> str:
    """A tick in as few letters as it needs."""
    if value != 0 and (abs(value) < 1e-3 or abs(value) >= 1e5):
        mantissa, power = f"{value:.1e}".split("e")
        return f"{float(mantissa):g}e{int(power)}"
    return f"{value:g}"
