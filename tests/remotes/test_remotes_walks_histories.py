"""Random walks over a source and three clones: nobody is ever stuck, and everybody ends with the same rows, once."""

from hypothesis import given, settings
from hypothesis import strategies as st
from support.remote_walks import TAME, WILD, Walk

SEEDS = st.integers(0, 2**32)
MANY = settings().max_examples


@settings(max_examples=max(2, MANY // 6 if MANY < 100 else 3 * MANY))
@given(seed=SEEDS)
def test_what_does_not_clash_comes_together(seed):
    Walk(seed, TAME).run(16)


@settings(max_examples=max(2, MANY // 6 if MANY < 100 else 2 * MANY))
@given(seed=SEEDS)
def test_nobody_is_stuck_whatever_was_cleaned_ordered_picked_or_killed(seed):
    Walk(seed, WILD).run(16)
