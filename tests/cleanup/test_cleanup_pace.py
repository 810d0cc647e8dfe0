"""The pace of deletion, and the delays after which a busy store is asked again."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.storage.deleting import Pace, retry_delay

pytestmark = pytest.mark.pure


def test_without_a_limit_nothing_waits():
    pace = Pace(None)
    assert [pace.wait(0.0, 1000) for _ in range(3)] == [0, 0, 0]


def test_a_batch_waits_until_the_one_before_is_paid_for():
    pace = Pace(100)
    assert pace.wait(50.0, 1000) == 0
    assert pace.wait(51.0, 500) == 9
    assert pace.wait(60.0, 1) == 5
    assert pace.wait(1000.0, 1000) == 0
    assert pace.wait(1000.0, 1) == 10


@given(
    per_second=st.floats(0.1, 10_000),
    batches=st.lists(st.tuples(st.floats(0, 100), st.integers(0, 1000)), min_size=1, max_size=20),
)
def test_between_any_two_batches_there_is_time_for_what_was_deleted(per_second, batches):
    pace, now, sent = Pace(per_second), 0.0, []
    for idle, keys in batches:
        now += idle
        wait = pace.wait(now, keys)
        assert wait >= 0
        now += wait
        sent.append((now, keys))
    for first in range(len(sent)):
        for last in range(first + 1, len(sent)):
            keys = sum(many for _, many in sent[first:last])
            assert sent[last][0] - sent[first][0] >= keys / per_second - 1e-6 * (1 + now)


@pytest.mark.parametrize("per_second", [0, -1, math.nan])
def test_a_limit_is_positive(per_second):
    with pytest.raises(ValueError, match="would never end"):
        Pace(per_second)


def test_delays_double_up_to_a_bound():
    assert [retry_delay(attempt, 1) for attempt in range(7)] == [0.5, 1, 2, 4, 8, 16, 20]
    assert retry_delay(1000, 1) == 20


@given(attempt=st.integers(0, 50), jitter=st.floats(0, 1))
def test_delays_are_spread_over_a_half(attempt, jitter):
    full = retry_delay(attempt, 1)
    assert full / 2 <= retry_delay(attempt, jitter) <= full
    assert retry_delay(attempt, 0) == full / 2
