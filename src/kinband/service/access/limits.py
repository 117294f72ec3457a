"""How much a caller may ask for: a bucket of permits that fills up at a steady rate.

Every request takes a permit out of its caller's bucket; an empty bucket says after how many seconds there will be one
again (HTTP's `Retry-After`). A bucket holds a burst's worth, so that short bursts pass and a steady stream is held to
the rate (the leaky bucket of Turner, 1986, seen from the other side).

Buckets are kept in this process, by identity or by address. There is a bound on how many; the one not used for longest
goes first, which is the one that had the most time to fill up again.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from time import monotonic

from kinband.arrays import positive_number
from kinband.errors import BadInputError

_ROUNDING = 1e-9  # whoever waited as long as told must not be refused for a last digit


class Limiter:
    """Buckets of permits, by caller. Threads may share it.

    Args:
        rate: Permits a second.
        burst: How many a full bucket holds.
        most: How many buckets are kept.
        clock: What says the time, in seconds that never go back.

    Example:
        >>> time = 0.0
        >>> limiter = Limiter(rate=0.5, burst=2, clock=lambda: time)
        >>> [limiter.take("anna") for _ in range(3)]
        [0.0, 0.0, 2.0]
        >>> limiter.take("ben")
        0.0
        >>> time = 2.0
        >>> limiter.take("anna")
        0.0
    """

    def __init__(
        self, *, rate: float, burst: float, most: int = 10_000, clock: Callable[[], float] = monotonic
    ) -> None:
        self.rate = positive_number(rate, name="rate")
        self.burst = positive_number(burst, name="burst")
        if burst < 1 or most < 1:
            raise BadInputError(f"burst and most must be 1 at least, got {burst} and {most}: nobody would ever pass")
        self._most = most
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # permits, and when there were so many
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, caller: str) -> float:
        """Take a permit and return 0, or take none and return after how many seconds there is one."""
        with self._lock:
            now = self._clock()
            permits = self._permits(caller, now)
            wait = self._wait(permits)
            self._buckets[caller] = (permits if wait else max(0.0, permits - 1), now)
            self._buckets.move_to_end(caller)
            if len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
            return wait

    def wait(self, caller: str) -> float:
        """Return what `take` would, without taking anything."""
        with self._lock:
            return self._wait(self._permits(caller, self._clock()))

    def _permits(self, caller: str, now: float) -> float:
        permits, then = self._buckets.get(caller, (self.burst, now))
        return min(self.burst, permits + (now - then) * self.rate)

    def _wait(self, permits: float) -> float:
        return 0.0 if permits >= 1 - _ROUNDING else (1 - permits) / self.rate


def request_limits(*, clock: Callable[[], float] = monotonic) -> Limiter:
    """Return the bound on requests of one identity: 20 a second, 200 at once.

    Example:
        >>> request_limits().take("k3Vq90Xz")
        0.0
    """
    return Limiter(rate=20, burst=200, clock=clock)


def failure_limits(*, clock: Callable[[], float] = monotonic) -> Limiter:
    """Return the bound on failed sign-ins from one address: 10 at once, then one in 10 seconds.

    A permit is taken for a failure alone, after it: a token that is good is never refused because somebody else at the
    same address, such as a script with an expired one, keeps failing.

    Example:
        >>> failures = failure_limits(clock=lambda: 0.0)
        >>> [failures.take("192.0.2.7") for _ in range(11)][-1]
        10.0
    """
    return Limiter(rate=0.1, burst=10, clock=clock)


def address_of(host: str | None) -> str:
    """Return the key of an address; of IPv6 that is its network of 64 bits, of which one caller has all addresses.

    Example:
        >>> address_of("192.0.2.7"), address_of("2001:db8:1:2:3:4:5:6"), address_of("::ffff:192.0.2.7")
        ('192.0.2.7', '2001:db8:1:2::', '192.0.2.7')
        >>> address_of(None)
        'unknown'
    """
    try:
        found = ip_address((host or "").partition("%")[0])
    except ValueError:
        return host or "unknown"
    if not isinstance(found, IPv6Address):
        return str(found)
    return str(found.ipv4_mapped or IPv6Address(int(found) >> 64 << 64))
