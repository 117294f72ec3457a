"""The limiter against a clockwork that drips permits one tick at a time."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinband.errors import BadInputError
from kinband.service.access.middleware import Limiter, address_of, failure_limits, request_limits

TICK = Fraction(1, 16)  # a power of two, so that sums of floats are exact


class Clockwork:
    """One bucket, textbook and slow: every tick of the clock drips its share into it, and what overflows is lost."""

    def __init__(self, rate: Fraction, burst: int) -> None:
        self.rate, self.burst, self.permits = rate, burst, Fraction(burst)

    def tick(self) -> None:
        self.permits = min(Fraction(self.burst), self.permits + self.rate * TICK)

    def take(self) -> Fraction:
        """Nothing to wait for and a permit less, or how long it takes."""
        if self.permits >= 1:
            self.permits -= 1
            return Fraction(0)
        return (1 - self.permits) / self.rate


RATES = st.integers(1, 64).map(lambda n: Fraction(n, 8))
ASKS = st.lists(st.tuples(st.integers(0, 40), st.sampled_from("ab")), max_size=60)


@settings(deadline=None, max_examples=60)
@given(rate=RATES, burst=st.integers(1, 7), asks=ASKS)
def test_the_limiter_does_what_the_clockwork_does(rate: Fraction, burst: int, asks: list[tuple[int, str]]) -> None:
    time = Fraction(0)
    limiter = Limiter(rate=float(rate), burst=burst, clock=lambda: float(time))
    clockworks = {caller: Clockwork(rate, burst) for caller in "ab"}
    for pause, caller in asks:
        for _ in range(pause):
            time += TICK
            for clockwork in clockworks.values():
                clockwork.tick()
        expected = float(clockworks[caller].take())
        assert limiter.take(caller) == pytest.approx(expected, rel=1e-12, abs=0)


@settings(deadline=None, max_examples=60)
@given(
    rate=st.floats(0.01, 100),
    burst=st.floats(1, 20),
    pauses=st.lists(st.floats(0, 30), min_size=1, max_size=60),
    start=st.floats(0, 1e6),
)
def test_in_no_stretch_of_time_more_passes_than_a_burst_and_the_rate(
    rate: float, burst: float, pauses: list[float], start: float
) -> None:
    time = start
    limiter = Limiter(rate=rate, burst=burst, clock=lambda: time)
    passed: list[float] = []
    for pause in pauses:
        time += pause
        if limiter.take("a") == 0:
            passed.append(time)
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            assert last - first + 1 <= burst + rate * (passed[last] - passed[first]) + 1e-6


@settings(deadline=None, max_examples=60)
@given(rate=st.floats(0.01, 100), burst=st.floats(1, 5), start=st.floats(0, 1e4), share=st.floats(0.01, 0.95))
def test_who_waits_as_long_as_told_passes_and_who_comes_earlier_does_not(
    rate: float, burst: float, start: float, share: float
) -> None:
    time = start
    limiter = Limiter(rate=rate, burst=burst, clock=lambda: time)
    while not (wait := limiter.take("a")):
        pass
    asked = time
    time = asked + share * wait
    assert limiter.take("a") > 0
    time = asked + wait * (1 + 1e-9) + 1e-9  # sums of floats are rounded
    assert limiter.take("a") == 0


def test_the_number_of_buckets_is_bounded_and_the_one_not_used_for_longest_goes() -> None:
    limiter = Limiter(rate=0.25, burst=1, most=3, clock=lambda: 5.0)
    for caller in ("a", "b", "c", "a", "d"):  # "b" is the one that goes
        limiter.take(caller)
    assert len(limiter) == 3
    assert [limiter.take(caller) for caller in "acdb"] == [4.0, 4.0, 4.0, 0.0]
    for number in range(1000):
        limiter.take(str(number))
    assert len(limiter) == 3


@pytest.mark.parametrize("bad", [{"rate": 0}, {"rate": -1}, {"burst": 0.5}, {"most": 0}, {"rate": float("nan")}])
def test_a_limiter_that_lets_nobody_pass_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(BadInputError):
        Limiter(**({"rate": 2.0, "burst": 3.0} | bad))  # type: ignore[arg-type]


def test_failures_are_held_tighter_than_requests() -> None:
    failures, requests = failure_limits(clock=lambda: 0.0), request_limits(clock=lambda: 0.0)
    assert failures.rate < requests.rate / 10
    assert failures.burst < requests.burst / 10


def test_addresses_of_one_network_share_a_bucket_under_ipv6_alone() -> None:
    assert address_of("2001:db8::1") == address_of("2001:db8::ffff:1") != address_of("2001:db8:0:1::1")
    assert address_of("fe80::1%eth0") == address_of("fe80::2")
    assert address_of("192.0.2.1") != address_of("192.0.2.2")
    assert address_of("::ffff:192.0.2.1") == address_of("192.0.2.1")
    assert address_of("testclient") == "testclient"
    assert address_of("") == address_of(None)
