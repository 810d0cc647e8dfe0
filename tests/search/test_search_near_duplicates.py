"""Near duplicates: the pairs that comparing every text with every other one finds."""

import random
from functools import partial
from itertools import combinations

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceTable
from lance_spark.core.refs import RefSpec
from lance_spark.errors import InvalidOption, NotFound, Refused, SchemaMismatch
from lance_spark.search.duplicate_rules import Pairing, Shingling, Signer, banding, jaccard, parse_pairing
from lance_spark.search.near_duplicates import KEY, ONE, OTHER, compare_pairs, pair_rows, sign_texts
from lance_spark.search.search import plan_texts, prepare_duplicates
from lance_spark.storage.resolving import dataset_at, resolve

WORDS = [f"w{number}" for number in range(200)]


def texts(count, seed=1):
    """Some are copies, some are copies with a word changed, some are null or empty."""
    rng = random.Random(seed)
    made = [" ".join(rng.choices(WORDS, k=rng.randint(20, 60))) for _ in range(count // 2)]
    while len(made) < count:
        copied = rng.choice(made).split()
        for _ in range(rng.choice((0, 0, 1, 2, 9))):
            copied[rng.randrange(len(copied))] = rng.choice(WORDS)
        made.append(" ".join(copied))
    return [None, "", "...", *made, "Short one", "short ONE!", "shorter"]


def found(uri, threshold, branch=None, shingling=None, where=None, columns=("id",), pairing=None):
    """The steps one after the other, as Spark runs them."""
    location = dataset_at(uri, None)
    signer = Signer(shingling or Shingling(size=1), banding(threshold))
    pin = resolve(location, RefSpec(branch=branch))
    work = prepare_duplicates(location, pin, ("text", columns, where), signer, threshold)
    pairing = pairing or work.pairing
    work = work._replace(pairing=pairing)
    plan = plan_texts(work, 2)
    keys = [batch for part in plan.partitions for batch in sign_texts(work, plan.scan, part)]
    together = pa.Table.from_batches(keys).sort_by(KEY)
    pairs = pa.Table.from_batches(pair_rows(pairing, together.to_batches(max_chunksize=7)))
    once = {(row[ONE], row[OTHER]): row for row in pairs.to_pylist()}
    compared = pa.Table.from_pylist(list(once.values()), pairs.schema)
    return pa.Table.from_batches(compare_pairs(work, compared.to_batches(max_chunksize=50)), work.wire)


def by_comparing(rows, shingling, threshold):
    parts = {key: shingling.parts(text or "") for key, text in rows.items()}
    return {
        (one, other): jaccard(parts[one], parts[other])
        for one, other in combinations(sorted(rows), 2)
        if parts[one] and jaccard(parts[one], parts[other]) >= threshold
    }


@pytest.fixture
def documents(uri):
    made = texts(120)
    lance.write_dataset(pa.table({"id": range(len(made)), "text": made}), uri, max_rows_per_file=30)
    return uri


def ids(table):
    return {(row["left"]["id"], row["right"]["id"]): row["_similarity"] for row in table.to_pylist()}


@pytest.mark.when(day=0.25)
@pytest.mark.parametrize("shingling", [Shingling(size=1), Shingling(), Shingling("characters", 5)], ids=str)
@pytest.mark.parametrize("threshold", [0.5, 0.8, 0.95, 1.0])
def test_pairs_are_those_that_comparing_all_texts_finds(documents, shingling, threshold):
    rows = dict(enumerate(texts(120)))
    expected = by_comparing(rows, shingling, threshold)
    table = found(documents, threshold, shingling=shingling)
    pairs = ids(table)
    assert len(pairs) == table.num_rows
    assert {*pairs} <= {*expected}
    assert all(pairs[pair] == expected[pair] for pair in pairs)
    assert len(pairs) >= 0.98 * len(expected)
    copies = {pair for pair, similarity in expected.items() if similarity == 1}
    assert copies
    assert copies <= {*pairs}


def test_pairs_of_a_branch_without_rows_that_are_gone(documents):
    LanceTable.for_path(documents).branches.create("exp")
    branch = lance.dataset(documents).checkout_version(("exp", None))
    rows = dict(enumerate(texts(120)))
    new = pa.table({"id": [1000, 1001], "text": [rows[50], "entirely new words"]})
    lance.write_dataset(new, branch, mode="append")
    lance.dataset(documents).checkout_version(("exp", None)).delete("id < 30")
    rows = {key: text for key, text in rows.items() if key >= 30} | {1000: rows[50]}
    expected = by_comparing(rows, Shingling(size=1), 0.9)
    assert (50, 1000) in expected
    pairs = ids(found(documents, 0.9, branch="exp"))
    assert {*pairs} <= {*expected}
    assert len(pairs) >= 0.98 * len(expected)
    assert (50, 1000) not in ids(found(documents, 0.9))
    some = ids(found(documents, 0.9, branch="exp", where="id > 40"))
    assert some
    assert all(one > 40 for one, _ in some)


def test_what_is_shown_of_a_pair(documents):
    table = found(documents, 0.9, columns=("text", "id"))
    assert table.schema.field("left").type.names == ["_rowid", "text", "id"]
    for row in table.to_pylist():
        assert row["left"]["_rowid"] < row["right"]["_rowid"]
    assert found(documents, 0.9, columns=()).schema.field("left").type.names == ["_rowid"]


def test_many_equal_rows_are_compared_as_one(uri, monkeypatch):
    lance.write_dataset(pa.table({"id": range(200), "text": ["the same text here"] * 200}), uri)
    monkeypatch.setattr("lance_spark.search.near_duplicates.jaccard", None)
    assert found(uri, 0.9).num_rows == 200 * 199 // 2


def test_more_equal_rows_than_can_be_paired_are_refused_unless_the_first_stands_for_them(uri):
    """n equal rows are n (n - 1) / 2 pairs: of a million the job would never end."""
    equal = [*["the same text here"] * 60, "the same text there", "another one"]
    lance.write_dataset(pa.table({"id": range(62), "text": equal}), uri)
    few = Pairing(max_group=50)
    with pytest.raises(Refused, match=r"51 rows or more, including the one with _rowid 0, .* 1,275 pairs") as refused:
        found(uri, 0.6, pairing=few)
    assert "copies='first'" in refused.value.hint
    assert found(uri, 0.6, pairing=Pairing(max_group=61)).num_rows == 60 * 59 // 2 + 60
    first = ids(found(uri, 0.6, pairing=Pairing("first", 50)))
    assert first == {**{(0, other): 1.0 for other in range(1, 60)}, (0, 60): 0.6}


def test_too_many_texts_of_one_template_are_refused(uri):
    words = " ".join(WORDS)
    lance.write_dataset(pa.table({"id": range(60), "text": [f"{words} {number}" for number in range(60)]}), uri)
    for pairing in (Pairing(max_group=50), Pairing("first", 50)):
        with pytest.raises(Refused) as refused:
            found(uri, 0.9, pairing=pairing)
        assert "max_group=" in refused.value.hint
    assert found(uri, 0.9, pairing=Pairing(max_group=60)).num_rows == 60 * 59 // 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"copies": "some"}, "copies must be .*not 'some'"),
        ({"max_group": 1}, "max_group must be .*not 1"),
        ({"max": 9}, "no option 'max'"),
    ],
    ids=str,
)
def test_which_pairs_there_may_be_is_said_in_words_that_there_are(options, words):
    with pytest.raises(InvalidOption, match=words):
        parse_pairing(options)


@pytest.mark.parametrize(
    ("asked", "error"),
    [(("txt", (), None), NotFound), (("id", (), None), SchemaMismatch), (("text", ("x",), None), NotFound)],
)
def test_impossible_requests_are_refused_before_any_task(documents, asked, error):
    location = dataset_at(documents, None)
    with pytest.raises(error):
        prepare_duplicates(location, resolve(location, RefSpec()), asked, Signer(Shingling(), banding(0.9)), 0.9)
    with pytest.raises(InvalidOption):
        partial(prepare_duplicates, location, resolve(location, RefSpec()), ("text", (), "nope = 1"))(
            Signer(Shingling(), banding(0.9)), 0.9
        )
