"""What a version changed, by its manifest and the one before it."""

import pytest
from support.merge_values import FIELDS, ID, data_file, deletion, fragment, version

from lance_spark.changes import feed_rules as rules
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import InvalidOption
from lance_spark.format.contents import Field
from lance_spark.format.transactions import Transaction
from lance_spark.format.versions import ACTION

pytestmark = pytest.mark.pure

COMMIT = rules.Commit(2, 0, "main")
RENAMED = (ID, Field(1, -1, "w", "int64", True, ()))
RETYPED = (ID, Field(2, -1, "v", "double", True, ()))
GROWN = (*FIELDS, Field(2, -1, "new", "int64", True, ()))


def did(operation, **properties):
    return Transaction(1, "uuid", operation, properties)


def pieces(before, after, operation="Update", columns=("id", "v"), fields=FIELDS, own=False):
    transaction = did(operation, **({ACTION: "merge"} if own else {}))
    return rules.StepReader(fields, columns).forward(before, after, COMMIT, transaction)


def brief(found):
    """(fragment before, fragment after, columns that were rewritten, whether rows may have gone, and come)."""
    return [
        (each.before and each.before.fragment, each.after and each.after.fragment, each.rewritten, each.deletes,
         each.inserts)
        for each in found.pieces
    ]  # fmt: skip


def test_fragments_that_came_and_went_are_read_whole_and_others_not_at_all():
    before, after = version([fragment(0), fragment(1)]), version([fragment(1), fragment(2)], number=2)
    found = pieces(before, after)
    assert brief(found) == [(0, None, (), True, False), (None, 2, (), False, True)]
    assert found.needs_pairing
    assert [each.rows for each in found.pieces] == [10, 10]
    assert pieces(before, before).pieces == ()


@pytest.mark.parametrize(
    ("before", "after", "operation", "own", "found"),
    [
        (None, deletion(1), "Delete", False, (True, False)),
        (deletion(1), deletion(2, 2), "Delete", False, (True, False)),
        (deletion(1), deletion(2, 2), "Update", False, (True, False)),
        (deletion(1), deletion(2, 2), "Update", True, (True, True)),
        (deletion(1), deletion(2, 2), "Restore", False, (True, True)),
        (deletion(1), None, "Restore", False, (False, True)),
        (deletion(1), deletion(2, 2), "Unknown", False, (True, True)),
    ],
)
def test_of_a_fragment_in_which_rows_were_deleted_or_came_back_only_those_are_read(
    before, after, operation, own, found
):
    sides = version([fragment(0, deleted=before)]), version([fragment(0, deleted=after)], number=2)
    (piece,) = pieces(*sides, operation=operation, own=own).pieces
    assert (piece.deletes, piece.inserts, piece.rewritten) == (*found, ())


def test_a_column_in_another_file_is_compared_by_value_if_it_is_asked_for():
    before = version([fragment(0, data_file("a", 0), data_file("b", 1))])
    after = version([fragment(0, data_file("a", 0), data_file("c", 1))], number=2)
    assert brief(pieces(before, after)) == [(0, 0, (1,), False, False)]
    assert pieces(before, after, columns=("id",)).pieces == ()


def test_a_new_column_is_compared_where_it_has_a_file_and_nothing_is_read_where_it_has_none():
    before = version([fragment(0), fragment(1)])
    after = version([fragment(0, "f0.lance", data_file("new", 2)), fragment(1)], number=2, fields=GROWN)
    found = pieces(before, after, "Merge", ("id", "v", "new"), GROWN)
    assert brief(found) == [(0, 0, (2,), False, False)]
    assert found.pieces[0].before.columns == ("id", "v", None)


def test_a_dropped_column_has_lost_its_values_although_the_fragments_are_the_same():
    before, after = version([fragment(0)]), version([fragment(0)], number=2, fields=(ID,))
    steps = rules.StepReader(FIELDS, ("id", "v"))
    back = steps.back(before, after, COMMIT, did("Project"))
    assert brief(back) == [(0, 0, (1,), False, False)]
    assert back.pieces[0].before.columns == ("id", None)
    assert pieces(before, after, "Project", ("id",), (ID,)).pieces == ()


@pytest.mark.parametrize(
    ("fields", "until", "found"),
    [
        (FIELDS, FIELDS, ("id", "v")),
        (FIELDS, RENAMED, ("id", "v")),
        (FIELDS, RETYPED, ("id", "v")),
        (RENAMED, FIELDS, ("id", "w")),
        ((ID,), FIELDS, ("id", None)),
    ],
    ids=["same", "renamed", "retyped", "renamed back", "not yet there"],
)
def test_a_column_is_found_under_its_name_in_the_neighbouring_version(fields, until, found):
    names = [field.name for field in until]
    assert rules.tracked_to(fields, rules.track(until, names), names, replaced=False).names == found


def test_a_name_that_another_column_had_is_not_that_column():
    """``v`` was renamed to ``w``, and then there was a new ``v``."""
    until = (ID, Field(1, -1, "w", "int64", True, ()), Field(2, -1, "v", "int64", True, ()))
    names = ["id", "w", "v"]
    assert rules.tracked_to(FIELDS, rules.track(until, names), names, replaced=False).names == ("id", "v", None)


def test_of_a_replaced_table_ids_mean_nothing():
    """Its columns are numbered from 0 on as those before."""
    until = (Field(0, -1, "v", "int64", True, ()), Field(1, -1, "x", "int64", True, ()))
    assert rules.tracked_to(FIELDS, rules.track(until, ["v", "x"]), ["v", "x"], replaced=True).names == ("v", None)


def test_an_id_that_was_given_again_is_another_column():
    """``v`` was dropped, and ``x`` got its id: what was before ``x`` came has no ``x``."""
    until = (ID, Field(1, -1, "x", "int64", True, ()))
    between = rules.tracked_to((ID,), rules.track(until, ["id", "x"]), ["id", "x"], replaced=False)
    assert rules.tracked_to(FIELDS, between, ["id", "x"], replaced=False).names == ("id", None)


def test_all_fields_inside_a_column_count():
    inner = (ID, Field(1, -1, "s", "struct", True, ()), Field(2, 1, "x", "int64", True, ()))
    assert rules.track(inner, ["s"]).fields == (frozenset({1, 2}),)


@pytest.mark.parametrize("operation", ["CreateIndex", "Rewrite", "ReserveFragments", "UpdateConfig", "UpdateBases"])
def test_operations_that_change_no_rows(operation):
    assert rules.changes_no_rows(did(operation))


@pytest.mark.parametrize("operation", ["Append", "Delete", "Update", "Merge", "Overwrite", "Restore", "Unknown"])
def test_operations_that_may_change_rows(operation):
    assert not rules.changes_no_rows(did(operation))
    assert not rules.changes_no_rows(None)


def test_the_first_half_of_a_copied_version_is_known():
    assert rules.begins_copy(did("Overwrite", **{ACTION: "begin"}))
    assert not rules.begins_copy(did("Overwrite"))
    assert not rules.begins_copy(None)


def test_row_ids_say_nothing_of_a_replaced_table():
    before, after = version([fragment(0)]), version([fragment(1)], number=2)
    assert not pieces(before, after, "Overwrite").recognizable
    assert pieces(before, after, "Update").recognizable


def piece(number=2, before=0, after=0, rewritten=(), deletes=False, inserts=False, size=10):
    sides = (None if each is None else rules.Side(PinnedVersion(None, 1), each, None, ()) for each in (before, after))
    return rules.Piece(rules.Commit(number, 0, "main"), *sides, rewritten, deletes, inserts, size, 5)


GONE, CAME, WRITTEN = piece(deletes=True), piece(inserts=True), piece(rewritten=(1,))
LATER = piece(3, deletes=True)


@pytest.mark.parametrize(
    ("net", "told", "direct", "to_pair"),
    [
        (False, [(GONE,)], [GONE], []),
        (False, [(GONE,), (CAME,)], [GONE, CAME], []),
        (False, [(GONE, CAME)], [], [GONE, CAME]),
        (False, [(GONE, CAME, WRITTEN)], [WRITTEN], [GONE, CAME]),
        (False, [(GONE, WRITTEN), ()], [GONE, WRITTEN], []),
        (True, [(GONE,), (LATER,)], [GONE, LATER], []),
        (True, [(GONE,), (CAME,)], [], [GONE, CAME]),
        (True, [(GONE,), (WRITTEN,)], [], [GONE, WRITTEN]),
        (True, [(GONE, WRITTEN), ()], [GONE, WRITTEN], []),
    ],
)
def test_only_what_may_belong_together_is_compared(net, told, direct, to_pair):
    reading = rules.FeedReading(DatasetLocation("/t"), rules.FeedColumns(None, 0), rules.FeedOptions(net=net))
    found = rules.arrange(reading, [rules.VersionPieces(tuple(each)) for each in told])
    assert (list(found.direct), list(found.to_pair)) == (direct, to_pair)
    assert found.rows == 5 * len(to_pair)


def test_what_takes_back_several_versions_is_compared_as_a_whole():
    reading = rules.FeedReading(DatasetLocation("/t"), rules.FeedColumns(None, 0), rules.FeedOptions())
    assert rules.arrange(reading, [rules.VersionPieces((WRITTEN, WRITTEN), net=True)]).to_pair == (WRITTEN, WRITTEN)
    assert rules.arrange(reading, [rules.VersionPieces((GONE, GONE), net=True)]).direct == (GONE, GONE)


def test_tasks_are_filled_by_bytes_in_the_order_of_the_pieces():
    many = [piece(number, size=size) for number, size in enumerate([4, 4, 4, 9, 30, 1, 1])]
    assert [len(task) for task in rules.in_tasks(many, 10)] == [2, 1, 1, 1, 2]
    assert [each for task in rules.in_tasks(many, 10) for each in task] == many
    assert rules.in_tasks([]) == []
    assert [len(task) for task in rules.in_tasks([piece(size=0)] * 1001)] == [1000, 1]


@pytest.mark.parametrize(
    "options", [{"images": "before"}, {"columns": ()}, {"columns": ("a", "a")}, {"key": ("a", "b", "a")}]
)
def test_options_that_cannot_be(options):
    with pytest.raises(InvalidOption):
        rules.FeedOptions(**options)
