"""The graph of versions, drawn in lanes."""

import pytest
from hypothesis import given
from support.log_entries import entries, histories

from lance_spark.log.graph_rules import draw

pytestmark = pytest.mark.pure


def drawn(*lines):
    return [f"{row.graph} {row.entry.pin}" if row.entry else row.graph for row in draw(entries(*lines))]


def test_one_chain_is_one_lane():
    assert drawn("main@3 main@2", "main@2 main@1", "main@1") == ["* main@3", "* main@2", "* main@1"]


def test_a_branch_joins_the_lane_of_the_version_it_was_created_from():
    assert drawn("exp@3 main@2", "main@3 main@2", "main@2 main@1", "main@1") == [
        "* exp@3",
        "| * main@3",
        "|/",
        "* main@2",
        "* main@1",
    ]


def test_a_merge_has_two_parents():
    assert drawn("main@4 main@3 exp@3", "exp@3 main@2", "main@3 main@2", "main@2") == [
        "M main@4",
        "|\\",
        "| * exp@3",
        "* | main@3",
        "|/",
        "* main@2",
    ]


def test_lanes_between_are_crossed_and_lanes_behind_move():
    assert drawn("a@3 main@2", "b@9 b@8", "c@3 main@2", "d@9 d@8", "main@2 main@1") == [
        "* a@3",
        "| * b@9",
        "| | * c@3",
        "| | | * d@9",
        "|_|/ /",
        "* | | main@2",
    ]


def test_a_lane_that_ends_makes_room():
    assert drawn("a@2 a@1", "b@2 b@1", "a@1", "b@1") == ["* a@2", "| * b@2", "* | a@1", " /", "* b@1"]


def test_a_merge_from_a_branch_that_is_gone_has_no_lane():
    assert drawn("main@4 main@3 gone@3", "main@3") == ["M main@4", "* main@3"]


def test_a_limited_log_leaves_lanes_open():
    (first, second) = draw(entries("main@3 main@2", "exp@3 main@2"))
    assert (first.graph, first.below) == ("*", "|")
    assert (second.graph, second.below) == ("| *", "| |")


def test_a_lane_that_moves_is_never_drawn_beside_a_version_that_ended():
    (row,) = draw(entries("main@1"))
    assert row.below == ""


@given(histories())
def test_every_version_has_one_node_below_all_that_were_made_from_it(lines):
    rows = list(draw(entries(*lines)))
    nodes = [row for row in rows if row.entry]
    assert [row.entry for row in nodes] == entries(*lines)
    for row in nodes:
        assert sum(row.graph.count(mark) for mark in "*M") == 1
        assert (row.graph.count("M") == 1) == (len(row.entry.parents) == 2)
    for row in rows:
        assert row.graph == row.graph.rstrip()
    assert rows[-1].graph.strip("*M| ") == ""


@pytest.mark.parametrize("count", [1, 5])
def test_lanes_end_with_the_history(count):
    lines = [*(f"b{number}@2 main@1" for number in range(count)), "main@1"]
    assert drawn(*lines)[-1] == "* main@1"
