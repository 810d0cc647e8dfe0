"""Marks: every file that a version names is marked, under the name by which a listing knows it."""

from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cleanup_surveys import CLONE, ROOT, chain, manifest, realpath, survey
from support.manifest_bytes import SECOND, data_file, deletion_file, fragment, head, index, manifest_file

from lance_spark.cleanup.reference_rules import LEFTOVER, MARKS, KeyResolver, cut_spans, leftover_marks, mark_span
from lance_spark.errors import CorruptData, Refused
from lance_spark.format.manifest import BasePath

pytestmark = pytest.mark.pure


def resolver(*chains):
    return KeyResolver(survey(*chains), realpath)


def content(version, files, indices=(), transaction=None, bases=None, deletion=None, flags=(0, 0)):
    """A manifest with one fragment for each (file, base id)."""
    fragments = [
        fragment(number, [data_file(path, base)], deletion if number == 0 else None)
        for number, (path, base) in enumerate(files)
    ]
    section = b"".join(index(UUID(int=number)) for number in indices) if indices else None
    return manifest_file(b"".join([*fragments, head(version, flags, transaction, bases)]), section)


def marked(which, position, contents, own):
    """Rows of MARKS for a span of versions."""
    batches = list(mark_span(which, position, contents, own))
    assert all(batch.schema.equals(MARKS) for batch in batches)
    return pa.Table.from_batches(batches, MARKS).to_pylist()


def named_at(rows, position):
    return {row["key"] for row in rows if row["key"] is not None and row["first"] <= position <= row["last"]}


def test_everything_a_version_names_is_marked():
    a = chain("a", (5,))
    bases = {0: BasePath(f"file://{ROOT}/", True), 3: BasePath("/old", False)}
    deletion = deletion_file(5, 17, base=0)
    files = [("x.lance", None), ("y.lance", 0), ("z.lance", 3)]
    rows = marked(a, 4, [(0, content(5, files, [7], "5-u.txn", bases, deletion))], resolver(chain(), a))
    assert {(row["key"], row["local"]) for row in rows if row["key"]} == {
        ("tree/a/data/x.lance", "data/x.lance"),
        ("data/y.lance", "data/y.lance"),
        ("*/data/z.lance", "data/z.lance"),
        ("_deletions/0-5-17.arrow", "_deletions/0-5-17.arrow"),
        (f"tree/a/_indices/{UUID(int=7)}", f"_indices/{UUID(int=7)}"),
        ("tree/a/_transactions/5-u.txn", "_transactions/5-u.txn"),
    }
    assert {(row["chain"], row["first"], row["last"]) for row in rows} == {(4, 0, 0)}
    assert [row["timestamp_ns"] for row in rows if row["timestamp_ns"]] == [1_700_000_000 * SECOND + 5]
    assert [row["foreign"] for row in rows if row["foreign"]] == ["/old"]


def test_a_span_tells_the_time_of_each_version_and_each_unknown_base_once():
    three = chain(versions=(1, 2, 3))
    bases = {1: BasePath("/old", True), 2: BasePath(f"{CLONE}/tree/a", True), 5: BasePath(ROOT, True)}
    files = [("x.lance", 1), ("y.lance", 2), ("z.lance", 5)]
    contents = [(0, content(1, [])), (1, content(2, files, bases=bases)), (2, content(3, files, bases=bases))]
    rows = marked(three, 0, contents, resolver(three, chain(repository=1)))
    assert [(row["first"], row["last"]) for row in rows if row["timestamp_ns"]] == [(0, 0), (1, 1), (2, 2)]
    assert [(row["foreign"], row["first"], row["last"]) for row in rows if row["foreign"]] == [("/old", 1, 2)]


def test_a_base_that_is_only_listed_is_nobodys_need():
    three = chain(versions=(1, 2, 3, 4))
    bases = {1: BasePath("/old", True), 2: BasePath("/new", True)}
    old, new = [("x.lance", 1), ("y.lance", 1)], [("x.lance", 2)]
    contents = [
        (at, content(at + 1, files, bases=bases)) for at, files in enumerate([old, old[:1], new, [*new, old[0]]])
    ]
    rows = marked(three, 0, contents, resolver(three))
    assert sorted((row["foreign"], row["first"], row["last"]) for row in rows if row["foreign"]) == [
        ("/new", 2, 3),
        ("/old", 0, 1),
        ("/old", 3, 3),
    ]


def test_files_of_a_clone_are_marked_only_where_they_are_the_datasets():
    clone = chain(versions=(3,), repository=1)
    files = [("own.lance", None), ("shared.lance", 1)]
    rows = marked(clone, 1, [(0, content(3, files, bases={1: BasePath(ROOT, True)}))], resolver(chain(), clone))
    assert named_at(rows, 0) == {"data/shared.lance"}


NAMES = st.sets(st.sampled_from("abcdefgh"))
HISTORIES = st.lists(st.none() | st.tuples(NAMES, NAMES, st.sets(st.integers(1, 3))), min_size=1, max_size=8)


@given(HISTORIES)
def test_marks_stand_for_the_files_that_each_version_names(history):
    """A version that is None in the history is not read: its position is a gap in the span."""
    it = chain("a", range(1, len(history) + 1), detached=[manifest(2**63)])
    history = [*history, ({"a"}, set(), set())]
    contents, expected = [], {}
    for position, named in enumerate(history):
        if named is None:
            continue
        own, main, indices = named
        files = [(f"{name}.lance", None) for name in own] + [(f"{name}.lance", 0) for name in main]
        version = it.files[position].version
        contents.append((position, content(version, files, indices, bases={0: BasePath("/links/table", True)})))
        expected[position] = {f"tree/a/data/{name}.lance" for name in own} | {f"data/{name}.lance" for name in main}
        expected[position] |= {f"tree/a/_indices/{UUID(int=number)}" for number in indices}
    rows = marked(it, 0, contents, resolver(chain(), it))
    assert {position: named_at(rows, position) for position in expected} == expected
    assert all(row["first"] in expected and row["last"] in expected for row in rows)


def test_a_file_that_all_versions_name_has_one_mark():
    many = chain(versions=range(1, 101))
    contents = [(position, content(position + 1, [("x.lance", None)])) for position in range(100)]
    rows = [row for row in marked(many, 0, contents, resolver(many)) if row["key"]]
    assert [(row["key"], row["first"], row["last"]) for row in rows] == [("data/x.lance", 0, 99)]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (b"", CorruptData),
        (content(2, [("x.lance", None)])[:-3], CorruptData),
        (content(2, [("x.lance", 9)]), CorruptData),
        (content(2, [], flags=(1 << 40, 0)), Refused),
        (content(2, [], flags=(0, 1 << 40)), Refused),
        (content(7, []), CorruptData),
        (b"LANC" * 10, CorruptData),
    ],
)
def test_a_manifest_that_cannot_be_understood_stops_the_run_and_is_named(bad, error):
    a = chain("a", (1, 2))
    with pytest.raises(error, match=f"tree/a/_versions/{a.versions[1].name}") as caught:
        list(mark_span(a, 0, [(0, content(1, [])), (1, bad)], resolver(chain(), a)))
    assert caught.value.hint


SIZES = st.lists(st.integers(0, 1000), min_size=1, max_size=12)


@given(chains=st.lists(SIZES, min_size=1, max_size=4), data=st.data(), tasks=st.integers(0, 10))
def test_spans_hold_every_version_to_read_exactly_once_and_in_order(chains, data, tasks):
    seen = survey(*(chain(versions=[manifest(at, size=size) for at, size in enumerate(sizes)]) for sizes in chains))
    positions = {
        number: data.draw(st.lists(st.integers(0, len(sizes) - 1), unique=True)) for number, sizes in enumerate(chains)
    }
    spans = cut_spans(seen, positions, tasks, {})
    for number, unread in positions.items():
        assert [at for span in spans if span.chain == number for at in span.positions] == sorted(unread)
    assert all(span.positions for span in spans)
    assert len(spans) <= max(1, tasks) + sum(map(bool, positions.values())) + sum(
        chains[number][at] == 0 for number, unread in positions.items() for at in unread
    )


def test_runs_are_of_about_equal_bytes():
    seen = survey(chain(versions=[manifest(at, size=10) for at in range(100)]))
    assert [len(span.positions) for span in cut_spans(seen, {0: range(100)}, 4, {})] == [25] * 4
    assert cut_spans(seen, {}, 4, {}) == cut_spans(seen, {0: []}, 4, {}) == []


def test_no_span_reaches_across_a_version_that_was_read_before():
    seen = survey(chain(versions=[manifest(at, size=10) for at in range(8)]))
    spans = cut_spans(seen, {0: [0, 1, 3, 5, 6]}, 1, {0: {2, 7}})
    assert [span.positions for span in spans] == [(0, 1), (3, 5, 6)]


def test_what_an_unfinished_run_proved_is_marked_as_named_by_no_version_that_is_left():
    batch = leftover_marks(pa.array(["tree/a/data/x.lance"]), pa.array(["data/x.lance"]))
    assert batch.schema.equals(MARKS)
    (row,) = batch.to_pylist()
    assert (row["chain"], row["key"], row["local"]) == (LEFTOVER, "tree/a/data/x.lance", "data/x.lance")
    assert (row["timestamp_ns"], row["foreign"]) == (None, None)
