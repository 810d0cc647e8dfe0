"""Fragments of two versions, told apart by the names of their data files."""

import pytest
from support.manifest_bytes import COLUMN, column, data_file, deletion_file, field, fragment, head, manifest_file

from lance_spark.format.contents import decode_contents
from lance_spark.format.manifest import BasePath
from lance_spark.format.operations import match, stat, stat_of_all

pytestmark = pytest.mark.pure

FORMAT = field(15, field(1, "lance") + field(2, "2.2"))
BASES = {0: BasePath("/origin", True)}


def version(*fragments, bases=None):
    return decode_contents(manifest_file(column(*COLUMN) + b"".join(fragments) + head(bases=bases, more=FORMAT)))


def ids(changes):
    return (
        [each.id for each in changes.added],
        [each.id for each in changes.removed],
        [(pair.before.id, pair.after.id) for pair in changes.changed],
    )


def test_the_same_file_in_another_base_is_the_same_fragment():
    before = version(fragment(0, [data_file("a")]), fragment(1, [data_file("b")]))
    after = version(fragment(0, [data_file("a", 0)]), fragment(7, [data_file("b", 0)]), bases=BASES)
    assert ids(match(before, after)) == ([], [], [])
    assert ids(match(before, version())) == ([], [0, 1], [])


def test_other_deletions_are_a_change_and_ids_of_fragments_are_none():
    before = version(fragment(0, [data_file("a")], deletion_file(1, 5)), fragment(1, [data_file("b")]))
    after = version(
        fragment(4, [data_file("a")], deletion_file(1, 5)), fragment(1, [data_file("b")], deletion_file(2, 6))
    )
    assert ids(match(before, after)) == ([], [], [(1, 1)])
    assert stat(match(before, after)).rows_removed == 1


def test_a_file_that_is_there_twice_is_two_fragments():
    once = version(fragment(0, [data_file("a")]))
    twice = version(fragment(0, [data_file("a")]), fragment(1, [data_file("a")]))
    assert ids(match(once, twice)) == ([1], [], [])
    assert ids(match(twice, once)) == ([], [1], [])
    other_way = version(fragment(5, [data_file("a")]), fragment(6, [data_file("a")]), fragment(7, [data_file("a")]))
    assert ids(match(twice, other_way)) == ([7], [], [])


def test_a_replaced_column_is_a_change_of_that_column():
    def two(second):
        other = field(1, second) + field(2, b"\1") + field(6, 50)
        return version(fragment(0, [data_file("a"), other]))

    (pair,) = match(two("old"), two("new")).changed
    assert pair.replaced_fields({0, 1}) == {1}
    assert pair.replaced_fields({0}) == frozenset()
    found = stat(match(two("old"), two("new")))
    assert (found.files_added, found.files_removed, found.bytes_added, found.rows_added) == (1, 1, 50, 0)


def test_sums():
    before = version(fragment(0, [data_file("a")]))
    after = version(fragment(1, [data_file("b")]), fragment(2, [data_file("c")], deletion_file(1, 1)))
    found = stat(match(before, after))
    assert (found.rows_added, found.rows_removed, found.bytes_added, found.bytes_removed) == (19, 10, 2000, 1000)
    moved = stat(match(before, after), moved=True)
    assert (moved.rows_added, moved.rows_removed, moved.files_added) == (9, 0, 2)
    assert stat(match(before, after), counted=False).rows_added is None
    assert stat_of_all(after).rows_added == 19
