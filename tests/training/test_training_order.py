"""Batches of frozen sets: which positions, in which order, on which rank and worker, and where to resume."""

import pytest

from lance_spark.errors import InvalidOption, Refused
from lance_spark.training.reading import Order, Progress, Shard, Worker

pytestmark = pytest.mark.pure

EPOCH_1 = [12, 1, 10, 7, 13, 6, 11, 5, 2, 3, 15, 19, 8, 14, 18, 4, 16, 17, 0, 9]


def epoch(order, number=0):
    return [order.batch(number, each).tolist() for each in range(order.batches)]


def test_one_process_reads_the_order_as_it_is():
    assert epoch(Order(7, 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert epoch(Order(7, 3, drop_last=True)) == [[0, 1, 2], [3, 4, 5]]
    assert epoch(Order(0, 3)) == []


@pytest.mark.parametrize("rows", [0, 1, 5, 6, 7, 12, 13, 100])
@pytest.mark.parametrize(("world", "size"), [(1, 4), (2, 3), (3, 2), (5, 7)])
def test_every_row_is_on_one_rank_once(rows, world, size):
    ranks = [Order(rows, size, Shard(rank, world)) for rank in range(world)]
    assert sorted(row for order in ranks for batch in epoch(order) for row in batch) == list(range(rows))
    assert all(len(batch) > 0 for order in ranks for batch in epoch(order))
    equal = [epoch(Order(rows, size, Shard(rank, world), drop_last=True)) for rank in range(world)]
    assert len({len(batches) for batches in equal}) == 1
    assert all(len(batch) == size for batches in equal for batch in batches)


def test_a_step_of_all_ranks_is_the_same_rows_for_any_number_of_ranks():
    for world in (1, 2, 4):
        steps = [
            sorted(row for rank in range(world) for row in Order(64, 8 // world, Shard(rank, world)).batch(0, step))
            for step in range(8)
        ]
        assert steps == [list(range(step * 8, step * 8 + 8)) for step in range(8)]


def test_epochs_are_shuffled_anew_if_asked_and_the_same_everywhere():
    order = Order(20, 20, reshuffle=True, seed=7)
    assert epoch(order, 0) == [list(range(20))]
    assert epoch(order, 1) == [EPOCH_1]
    assert epoch(order, 2) != epoch(order, 1)
    assert sorted(epoch(order, 2)[0]) == list(range(20))
    assert epoch(Order(20, 20, seed=7), 1) == [list(range(20))]


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("start", [0, 4])
def test_workers_going_around_give_the_batches_in_order(workers, start):
    each = [list(Worker(number, workers).numbers(start, start, 11)) for number in range(workers)]
    merged = [each[turn % workers][turn // workers] for turn in range(11 - start)]
    assert merged == list(range(start, 11))


def test_a_worker_that_resumes_by_itself_keeps_its_turn():
    assert list(Worker(1, 3).numbers(0, 5, 12)) == [7, 10]
    assert list(Worker(1, 3).numbers(0, 7, 12)) == [7, 10]


def test_positions_name_batches_for_another_number_of_ranks():
    order = Order(100, 5, Shard(0, 4))
    assert [order.batch_at(position) for position in (0, 20, 40, 100)] == [0, 1, 2, 5]
    assert Order(100, 10, Shard(1, 2)).batch_at(40) == 2
    with pytest.raises(Refused, match="No batch begins at position 30"):
        order.batch_at(30)


def test_states_of_something_else_are_refused():
    progress = Progress("s", "train", "f1")
    state = progress.as_state()
    assert progress.resumed({**state, "epoch": 3, "position": 8}) == Progress("s", "train", "f1", 3, 8)
    for change in ({"split": "val"}, {"set": "t"}, {"fingerprint": "f2"}):
        with pytest.raises(Refused, match="state belongs to split"):
            progress.resumed({**state, **change})
    for state_of_other in ({"model": 1}, {**state, "epoch": -1}, {**state, "position": "8"}):
        with pytest.raises(InvalidOption, match="not the state"):
            progress.resumed(state_of_other)


@pytest.mark.parametrize(("rank", "world"), [(-1, 2), (2, 2), (0, 0)])
def test_ranks_that_cannot_be_are_refused(rank, world):
    with pytest.raises(InvalidOption, match="There is no rank"):
        Shard(rank, world)
    with pytest.raises(InvalidOption, match="must be 1 or more"):
        Order(5, 0)
