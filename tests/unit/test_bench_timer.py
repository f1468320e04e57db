"""The statistics and the choice of block sizes, on a clock that advances only when told to."""

import random

import pytest

from hptp.bench.timer import Block, Measurement, Timer, format_seconds, interleaved


class Machine:
    """A clock that costs `clock_seconds` to read, and calls that take the time they are told."""

    def __init__(self, clock_seconds=0.0):
        self.now = 0.0
        self.clock_seconds = clock_seconds
        self.calls = []

    def clock(self):
        self.now += self.clock_seconds
        return self.now

    def timer(self, name, *seconds):
        durations = list(seconds)

        def call():
            self.calls.append(name)
            self.now += durations.pop(0) if len(durations) > 1 else durations[0]

        return Timer(call, clock=self.clock)


def measured(*seconds):
    return Measurement(tuple(Block(1, s) for s in seconds))


def test_median_and_quartiles_are_interpolated():
    measurement = measured(4.0, 1.0, 3.0, 2.0)
    assert measurement.median == 2.5
    assert measurement.quartiles == (1.75, 3.25)
    assert measurement.iqr == 1.5


def test_a_block_counts_as_its_time_per_call():
    assert Measurement((Block(10, 20.0), Block(2, 8.0), Block(1, 3.0))).times == [2.0, 3.0, 4.0]


def test_one_block_has_no_spread_but_one_significant_figure():
    measurement = measured(1.5)
    assert (measurement.median, measurement.iqr, measurement.significant_figures) == (1.5, 0.0, 1)


def test_a_measurement_needs_a_block():
    with pytest.raises(ValueError, match="at least one block"):
        Measurement(())


@pytest.mark.parametrize(
    "deviation, figures",
    [(0.0, 4), (1e-7, 4), (2e-3, 3), (2e-2, 2), (0.2, 1), (0.9, 1)],
)
def test_significant_figures_follow_the_deviation(deviation, figures):
    blocks = [1.0 + deviation * step for step in (-1, -0.5, 0, 0.5, 1)]
    assert measured(*blocks).significant_figures == figures


def test_an_outlier_costs_no_significant_figures():
    calm = [1.0, 1.001, 0.999, 1.0005, 0.9995, 1.0, 1.0002, 0.9998]
    assert measured(*calm, 9.0).significant_figures == measured(*calm, 1.001).significant_figures


@pytest.mark.parametrize(
    "iqr, words", [(0.09, None), (0.11, "was not quiet"), (0.26, "do not rely on this number")]
)
def test_a_wide_spread_is_said_in_words(iqr, words):
    measurement = measured(1 - iqr / 2, 1 - iqr / 2, 1.0, 1 + iqr / 2, 1 + iqr / 2)
    assert measurement.iqr == pytest.approx(iqr)
    if words is None:
        assert measurement.warnings == []
    else:
        (warning,) = measurement.warnings
        assert words in warning
        assert f"{iqr:.0%} of the median" in warning
        assert warning in str(measurement)


def test_merging_keeps_every_block():
    assert measured(1.0, 2.0).merged(measured(3.0)) == measured(1.0, 2.0, 3.0)


def test_json_keeps_every_bit_of_every_block():
    measurement = Measurement((Block(3, 0.1), Block(4, 1 / 3)))
    assert Measurement.from_json(measurement.to_json()) == measurement


def test_cold_times_exactly_the_first_call():
    machine = Machine()
    timer = machine.timer("f", 5.0, 1.0)
    assert timer.cold() == measured(5.0)
    with pytest.raises(RuntimeError, match="already been called"):
        timer.cold()


@pytest.mark.parametrize("call_seconds", [1e-7, 1e-5, 1e-3, 0.1])
def test_the_clock_costs_less_than_a_thousandth_of_a_block(call_seconds):
    clock_seconds = 1e-6
    timer = Machine(clock_seconds).timer("f", call_seconds)
    for block in timer.blocked_autorange(min_run_time=0.01).blocks:
        assert clock_seconds <= 1e-3 * block.seconds


def test_blocks_are_not_longer_than_they_need_be():
    measurement = Machine(1e-6).timer("f", 1e-6).blocked_autorange(min_run_time=0.01)
    # 1000 calls pay for the clock, and a fifth more is aimed at.
    assert max(block.calls for block in measurement.blocks) <= 1.3e3
    assert measurement.median == pytest.approx(1e-6, rel=2e-3)


def test_autorange_runs_as_long_as_it_was_told():
    measurement = Machine().timer("f", 1e-3).blocked_autorange(min_run_time=0.25)
    assert 0.25 <= sum(block.seconds for block in measurement.blocks) < 0.3


def test_a_slow_call_still_gets_its_blocks():
    blocks = Machine().timer("f", 10.0).blocked_autorange(min_run_time=0.2).blocks
    assert blocks == (Block(1, 10.0),) * 5


def test_several_calls_are_timed_after_an_untimed_one():
    machine = Machine()
    timer = machine.timer("f", 100.0, 1.0)
    assert timer.warm_block(3) == Block(3, 3.0)
    assert len(machine.calls) == 4
    assert machine.timer("g", 100.0, 1.0).warm_block(1) == Block(1, 100.0)


def test_contestants_take_turns_in_random_order():
    machine = Machine()
    timers = {name: machine.timer(name, 1.0) for name in "abc"}
    found = interleaved(timers, 8.0, min_blocks=8, rng=random.Random(1))
    assert all(len(measurement.blocks) == 8 for measurement in found.values())
    turns = machine.calls[3:]  # the first three chose the block sizes
    rounds = ["".join(turns[i : i + 3]) for i in range(0, len(turns), 3)]
    assert all(sorted(turn) == ["a", "b", "c"] for turn in rounds)
    assert len(set(rounds)) > 1


def test_the_same_seed_gives_the_same_order():
    def order():
        machine = Machine()
        timers = {name: machine.timer(name, 1.0) for name in "abcd"}
        interleaved(timers, 1.0, rng=random.Random(7))
        return machine.calls

    assert order() == order()


@pytest.mark.parametrize(
    "seconds, figures, text",
    [
        (12.34, 3, "12.3 s"),
        (0.0012345, 3, "1.23 ms"),
        (2.5e-7, 2, "250 ns"),
        (123e-6, 1, "100 us"),
        (9.996e-3, 3, "10.00 ms"),
        (0.0, 2, "0.0 ns"),
    ],
)
def test_seconds_are_written_with_a_unit(seconds, figures, text):
    assert format_seconds(seconds, figures) == text
