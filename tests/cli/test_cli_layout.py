"""The layout of a dataset in `lance-git`: `config` shows and changes it; branches, merges and remotes carry it."""

import lance
import pyarrow as pa
import pytest
from support.command_line import call, run

from lance_spark import LanceTable

ONE_DAY_EACH = [[0], [1], [2]]
BY, CLUSTER = "lance_spark.partition_by", "lance_spark.cluster_by"


@pytest.fixture
def place(tmp_path):
    """A workspace whose dataset has six rows of three days."""
    (tmp_path / "rows.csv").write_text("id,day\n" + "".join(f"{n},{n % 3}\n" for n in range(6)))
    assert call(tmp_path, "init", "t.lance", "--from", "rows.csv").code == 0
    LanceTable.for_path(str(tmp_path / "t.lance")).write(rows(range(6)), mode="append")
    return tmp_path / "t.lance"


def rows(ids):
    return pa.table({"id": pa.array(ids, pa.int64()), "day": pa.array([n % 3 for n in ids], pa.int64())})


def days_of_new(place, branch=None):
    """The days in each of the last three files."""
    dataset = lance.dataset(str(place))
    dataset = dataset if branch is None else dataset.checkout_version((branch, None))
    return sorted(sorted({*each.to_table()["day"].to_pylist()}) for each in dataset.get_fragments()[-3:])


def config(place, branch=None):
    dataset = lance.dataset(str(place))
    return (dataset if branch is None else dataset.checkout_version((branch, None))).config()


def write(place, branch=None, start=100):
    table = LanceTable.for_path(str(place))
    (table if branch is None else table.checkout(branch=branch)).write(rows(range(start, start + 9)), mode="append")


def test_a_layout_is_declared_shown_obeyed_and_let_go(place):
    assert run(place, "config").out == ""
    before = lance.dataset(str(place)).version
    would = run(place, "config", "partition_by", "day, bucket(2, id)", "--dry-run")
    assert would.out == f"'{BY}' would be set to day, bucket(2, id) on branch 'main'.\n"
    assert lance.dataset(str(place)).version == before
    assert (
        run(place, "config", "partition_by", "day").out
        == f"'{BY}' was set to day on branch 'main': main@{before + 1}.\n"
    )
    assert call(place, "config", CLUSTER, "id").code == 0
    assert call(place, "config", CLUSTER, "id").code == 0
    assert lance.dataset(str(place)).version == before + 2
    write(place)
    assert days_of_new(place) == ONE_DAY_EACH
    assert call(place, "config").out == f"{CLUSTER}=id\n{BY}=day\n"
    assert call(place, "config", "--get", "partition_by").out == "day\n"
    assert call(place, "config", "--list", "--json").json["settings"] == {BY: "day", CLUSTER: "id"}
    assert "layout  PARTITIONED BY (day) CLUSTER BY (id)" in call(place, "show").out
    assert call(place, "show", "--json").json["layout"] == "PARTITIONED BY (day) CLUSTER BY (id)"
    assert f"{BY}  null -> day" in call(place, "show", f"main@{before + 1}").out
    assert call(place, "config", "--unset", "partition_by").code == 0
    assert config(place) == {CLUSTER: "id"}
    assert "is not set" in call(place, "config", "partition_by").error


def test_what_the_jvm_connector_declared_is_shown_with_its_name(place):
    lance.dataset(str(place)).initialize_mem_wal(bucket_column="id", num_buckets=4)
    shown = call(place, "config", "partition_by")
    assert (shown.code, shown.out) == (0, "bucket(4, id)\n")
    assert "The JVM connector declared" in shown.err
    assert call(place, "config", "partition_by", "--json").json == {
        "key": BY,
        "value": "bucket(4, id)",
        "declared_by": "the JVM connector",
    }
    listed = call(place, "config")
    assert listed.out == f"{BY}=bucket(4, id)\n"
    assert "The JVM connector declared" in listed.err
    assert call(place, "config", "--json").json["declared_by_others"] == {BY: "bucket(4, id)"}
    assert call(place, "config", "--json").json["settings"] == {}
    assert call(place, "config", "cluster_by", "day").code == 0
    assert call(place, "config").out == f"{CLUSTER}=day\n{BY}=bucket(4, id)\n"
    refused = call(place, "config", "partition_by", "day")
    assert refused.code != 0
    assert "The JVM connector partitioned" in refused.err
    assert "is not set" in call(place, "config", "user.name").error


REFUSED = [
    (("partition_by", "gone"), "there is no column 'gone'"),
    (("partition_by", "foo(id)"), "cannot be partitioned by foo"),
    (("partition_by", "hours(id)"), "cannot be partitioned by hours(id)"),
    (("partition_by", "day,"), "cannot be read"),
    (("cluster_by", "bucket(2, id)"), "clustered by columns"),
    (("user.name", "ana"), "LANCE_AUTHOR"),
    (("remote.origin.url", "s3://b/t"), "lance-git remote"),
    (("lance_spark.constraints.low", "id < 9"), "t.constraints.add"),
    (("auto_compact", "true"), "SET TBLPROPERTIES"),
    (("--unset",), "Name one key"),
    (("partition_by", "day", "--unset"), "Name one key"),
]


@pytest.mark.parametrize(("typed", "said"), REFUSED, ids=[" ".join(typed) for typed, _ in REFUSED])
def test_what_is_refused_changes_nothing_and_says_what_to_type(place, typed, said):
    before = lance.dataset(str(place)).version
    assert said in call(place, "config", *typed).error
    assert (lance.dataset(str(place)).version, config(place)) == (before, {})


def test_a_branch_begins_with_the_layout_and_a_merge_brings_a_new_one_with_its_rows(place):
    assert call(place, "config", "partition_by", "id").code == 0
    assert call(place, "checkout", "-b", "exp").code == 0
    assert call(place, "config", "partition_by").out == "id\n"
    assert call(place, "config", "partition_by", "day").code == 0
    assert (config(place), config(place, "exp")) == ({BY: "id"}, {BY: "day"})
    write(place, "exp")
    assert days_of_new(place, "exp") == ONE_DAY_EACH
    assert call(place, "switch", "main").code == 0
    write(place, start=200)
    merged = call(place, "merge", "exp", "--json").json
    assert f"settings are taken over: {BY}" in merged["notes"]
    assert (config(place), lance.dataset(str(place)).count_rows()) == ({BY: "day"}, 24)
    write(place, start=300)
    assert days_of_new(place) == ONE_DAY_EACH


TAKEN = {
    ("--ours",): "id",
    ("--theirs",): "day",
    ("-X", f"{BY}=theirs"): "day",
    ("-X", f"{BY}=ours"): "id",
}


@pytest.mark.parametrize("settled", TAKEN, ids=" ".join)
def test_two_layouts_are_a_conflict_until_somebody_says_whose(place, settled):
    for branch in ("exp", "same"):
        assert call(place, "branch", branch).code == 0
    for branch, layout in (("exp", "day"), ("same", "id"), ("main", "id")):
        assert call(place, "switch", branch).code == 0
        assert call(place, "config", "partition_by", layout).code == 0
    write(place, "exp")
    assert call(place, "merge", "same").code == 0
    before = lance.dataset(str(place)).version
    refused = call(place, "merge", "exp")
    assert refused.code == 12
    assert f"both sides changed setting '{BY}': 'id' in ours, 'day' in theirs" in refused.err
    assert (lance.dataset(str(place)).version, config(place)) == (before, {BY: "id"})
    assert call(place, "merge", "exp", *settled).code == 0
    assert (config(place), lance.dataset(str(place)).count_rows()) == ({BY: TAKEN[settled]}, 15)


def test_clones_pulls_and_pushes_carry_the_layout(place):
    assert call(place, "config", "partition_by", "day").code == 0
    there = place.parent / "copy.lance"
    assert call(place.parent, "clone", "t.lance", "copy.lance").code == 0
    assert call(there, "config").out == f"{BY}=day\n"
    write(there)
    assert days_of_new(there) == ONE_DAY_EACH
    assert call(place, "config", "cluster_by", "id").code == 0
    assert call(there, "pull").code == 0
    assert config(there) == {BY: "day", CLUSTER: "id"}
    assert call(there, "config", "partition_by", "day, bucket(2, id)").code == 0
    assert call(there, "push").code == 0
    assert config(place) == {BY: "day, bucket(2, id)", CLUSTER: "id"}
    assert days_of_new(place) == ONE_DAY_EACH
    assert call(place, "config", "partition_by", "id").code == 0
    assert call(there, "config", "partition_by", "day").code == 0
    assert call(there, "pull").code == 12
    assert call(there, "pull", "--theirs").code == 0
    assert config(there)[BY] == "id"
    assert "layout  PARTITIONED BY (id) CLUSTER BY (id)" in call(there, "show", "origin/main").out


def test_another_place_is_named_in_front(place):
    assert call(place.parent, "-C", place, "config", "cluster_by", "zorder(id, day)").code == 0
    assert call(place.parent, "--dataset", place, "config", "cluster_by").out == "zorder(id, day)\n"
