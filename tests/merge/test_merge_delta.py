"""How fragments of one version came from those of another one: known by their files, whatever their ids."""

import pytest
from support.merge_values import HERE, ID, data_file, deletion, fragment, steps, version

from lance_spark.format.operations import Step, Steps
from lance_spark.format.versions import Delta, Root, delta
from lance_spark.merge.conflict_rules import are_free, reused

pytestmark = pytest.mark.pure

ONE, TWO = fragment(0, "a.lance"), fragment(1, "b.lance")
DELETED = fragment(0, "a.lance", deleted=deletion(3))
WRITTEN = fragment(0, data_file("a.lance", 0, -2), data_file("c.lance", 1))
COPIED = fragment(7, data_file("a.lance", 0, 1, base=2))
DEAD = fragment(0, "a.lance", data_file("d.lance", 9))


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ([ONE, TWO], Delta()),
        ([TWO, ONE], Delta()),
        ([ONE, TWO, fragment(2)], Delta(added=(fragment(2),))),
        ([TWO], Delta(removed=(ONE,))),
        ([], Delta(removed=(ONE, TWO))),
        ([DELETED, TWO], Delta(changed=((ONE, DELETED),))),
        ([WRITTEN, TWO], Delta(changed=((ONE, WRITTEN),))),
        ([fragment(9, "n.lance"), TWO], Delta(added=(fragment(9, "n.lance"),), removed=(ONE,))),
        ([fragment(0, "n.lance"), TWO], Delta(added=(fragment(0, "n.lance"),), removed=(ONE,))),
        ([DEAD, TWO], Delta()),
        ([COPIED, TWO], Delta(renumbered=((ONE, COPIED),))),
    ],
    ids=["same", "order", "new", "gone", "all", "rows", "column", "rewritten", "its id again", "dropped column", "id"],
)
@pytest.mark.parametrize("bases", [None, {None: HERE, 2: Root("s3://b/source")}], ids=["one chain", "two chains"])
def test_what_changed_between_two_versions(after, expected, bases):
    changes = delta(version([ONE, TWO]), version(after, 2, bases=bases))
    assert changes == expected
    assert bool(changes) == bool(expected.added or expected.removed or expected.changed)


@pytest.mark.parametrize("bases", [None, {None: HERE, 2: Root("s3://b/source")}], ids=["one chain", "two chains"])
def test_a_column_that_is_back_changes_every_fragment_that_has_it(bases):
    other = fragment(2, data_file("c.lance", 0))
    dropped, back = version([ONE, TWO, other], fields=[ID]), version([ONE, TWO, other], 2, bases=bases)
    assert delta(dropped, back) == Delta(changed=((ONE, ONE), (TWO, TWO)))
    assert not delta(back, dropped)


def test_ids_are_free_above_everything_that_files_have():
    side = version([fragment(0, data_file("a.lance", 0, 1, 5))])
    assert [are_free(new, side) for new in ({6, 7}, {5}, {4, 8}, set())] == [True, False, False, True]
    assert are_free({2}, version([]))
    assert not are_free({1}, version([]))


V = ID._replace(id=1, name="v", nullable=True)
DROPPED = Step(2, "Project", fields=frozenset({0}))
KEPT, MORE = Step(2, "Project", fields=frozenset({0, 1})), Step(3, "Merge", fields=frozenset({0, 1, 2}))


@pytest.mark.parametrize(
    ("now", "files", "operations", "columns"),
    [
        (V, "a.lance", ["Project"], []),
        (V._replace(type="string"), "a.lance", ["Project"], ["v"]),
        (V._replace(name="w"), "a.lance", ["Project"], []),
        (V._replace(name="w"), "a.lance", ["Merge"], []),
        (V._replace(name="w"), "b.lance", ["Merge"], ["v"]),
        (V._replace(name="w"), "b.lance", [KEPT, MORE, "Rewrite"], []),
        (V._replace(name="w"), "b.lance", [KEPT, DROPPED, MORE], ["v"]),
        (V, "b.lance", ["Merge"], []),
        (V, "b.lance", [DROPPED, "Merge"], ["v"]),
        (V, "a.lance", [DROPPED, "Restore"], []),
    ],
    ids=[
        "nothing",
        "another type",
        "renamed",
        "renamed, and something was added",
        "another column",
        "renamed, something was added, and compacted",
        "another column, as is known",
        "other values",
        "added again",
        "back by a restore",
    ],
)
def test_columns_whose_ids_pylance_gave_away(now, files, operations, columns):
    base = version([fragment(0, data_file("id.lance", 0), data_file("a.lance", 1))], fields=(ID, V))
    side = version([fragment(0, data_file("id.lance", 0), data_file(files, 1))], 2, fields=(ID, now))
    assert reused(base, side, steps(None, *operations)) == columns
    assert reused(base, base, Steps(None, complete=False)) == []
