"""The options of a write: every one, its bad values, and what a write can never do."""

import pytest

from lance_spark.core.refs import RefSpec
from lance_spark.core.table_options import WRITE_OPTIONS, FileOptions, WriteOptions, parse_write_options
from lance_spark.errors import InvalidName, InvalidOption, Refused

pytestmark = pytest.mark.pure

NEW = {"branch": "b", "create_branch": "true"}
GOOD = [
    ({"branch": "exp/delays"}, WriteOptions(branch="exp/delays")),
    ({"branch": "main"}, WriteOptions()),
    ({"max_rows_per_file": "10"}, WriteOptions(files=FileOptions(max_rows_per_file=10))),
    ({"max_bytes_per_file": "1g"}, WriteOptions(files=FileOptions(max_bytes_per_file=2**30))),
    ({"data_storage_version": "2.1"}, WriteOptions(files=FileOptions(data_storage_version="2.1"))),
    ({"enable_stable_row_ids": "true"}, WriteOptions(enable_stable_row_ids=True)),
    ({"enable_stable_row_ids": "false"}, WriteOptions(enable_stable_row_ids=False)),
    ({"commit_message": "why: x = 1"}, WriteOptions(commit_message="why: x = 1")),
    ({"create_table": "true"}, WriteOptions(create_table=True)),
    ({"overwrite_schema": "false"}, WriteOptions(overwrite_schema=False)),
    ({"merge_schema": "true"}, WriteOptions(merge_schema=True)),
    ({"mergeSchema": "true"}, WriteOptions(merge_schema=True)),
    ({"overwriteSchema": "false"}, WriteOptions(overwrite_schema=False)),
    ({"overwriteSchema": "true"}, WriteOptions()),
    ({"isolation_level": "Serializable"}, WriteOptions(isolation_level="serializable")),
    ({"validate_from_version": "3"}, WriteOptions(validate_from_version=3)),
    ({"partition_overwrite_mode": "dynamic"}, WriteOptions(partition_overwrite_mode="dynamic")),
    ({"external_blob_mode": "ingest"}, WriteOptions(external_blob_mode="ingest")),
    ({"create_branch": "false"}, WriteOptions()),
    ({"partition_by": "day, bucket(8, id)"}, WriteOptions(partition_by="day, bucket(8, id)")),
    ({"cluster_by": "ts"}, WriteOptions(cluster_by="ts")),
    ({"branch": "b", "create_branch": "no"}, WriteOptions(branch="b")),
    (NEW, WriteOptions(branch="b", create_from=RefSpec())),
    ({**NEW, "from_branch": "a"}, WriteOptions(branch="b", create_from=RefSpec(branch="a"))),
    ({**NEW, "from_branch": "main"}, WriteOptions(branch="b", create_from=RefSpec())),
    ({**NEW, "from_tag": "v1"}, WriteOptions(branch="b", create_from=RefSpec(tag="v1"))),
    ({**NEW, "from_version": "3"}, WriteOptions(branch="b", create_from=RefSpec(version=3))),
    (
        {**NEW, "from_branch": "a", "from_version": "3"},
        WriteOptions(branch="b", create_from=RefSpec(branch="a", version=3)),
    ),
]


def test_no_option_means_main_with_pylances_own_defaults():
    assert parse_write_options({}) == WriteOptions(
        branch=None, create_from=None, files=FileOptions(None, None, None), enable_stable_row_ids=None
    )


def test_every_option_is_tried_below():
    assert {name for given, _ in GOOD for name in given} == {*WRITE_OPTIONS, "mergeSchema", "overwriteSchema"}


def test_an_option_is_not_given_under_two_names():
    with pytest.raises(InvalidOption, match="'merge_schema' is given twice"):
        parse_write_options({"merge_schema": "true", "mergeSchema": "false"})


def camel(name):
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


@pytest.mark.parametrize("spell", ["replaceWhere", "replacewhere", "replace_where"])
def test_deltas_replace_where_is_answered_with_the_call_that_does_it(spell):
    with pytest.raises(InvalidOption) as caught:
        parse_write_options({spell: "day = 'x'"})
    assert f"'{spell}'" in caught.value.message
    assert """.overwrite(df, where="day = 'x'")""" in caught.value.hint


@pytest.mark.parametrize("spell", [str, str.upper, camel])
@pytest.mark.parametrize(("given", "expected"), GOOD)
def test_an_option_is_understood_in_any_case_and_spelling(given, expected, spell):
    assert parse_write_options({spell(name): value for name, value in given.items()}) == expected


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("tag", "a tag"),
        ("version", "a version"),
        ("versionAsOf", "a version"),
        ("asOf", "a past moment"),
        ("timestampAsOf", "a past moment"),
    ],
)
@pytest.mark.parametrize("more", [{}, {"branch": "b"}, {"no_such_option": "x"}])
def test_writing_to_what_never_changes_is_refused_with_the_way_out(option, what, more):
    for spelled in (option, option.upper()):
        with pytest.raises(Refused, match=f"Cannot write to {what}") as caught:
            parse_write_options({**more, spelled: "1"})
        assert "create_branch" in caught.value.hint


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"create_branch": "true"}, "needs the new branch's name"),
        ({"create_branch": "true", "branch": "main"}, "needs the new branch's name"),
        ({"branch": "b", "from_tag": "v1"}, "'from_tag' says where a new branch starts"),
        ({"branch": "b", "from_branch": "a"}, "'from_branch' says where a new branch starts"),
        ({"from_version": "1"}, "'from_version' says where a new branch starts"),
        ({"branch": "b", "create_branch": "false", "from_version": "1"}, "no branch is created"),
        ({**NEW, "from_tag": "v1", "from_branch": "a"}, "'from_tag' cannot be combined"),
        ({**NEW, "from_tag": "v1", "from_version": "1"}, "'from_tag' cannot be combined"),
        ({"create_table": "true", "branch": "b"}, "a new table, which has no branch 'b'"),
        ({"create_table": "maybe"}, "'create_table' is 'maybe'"),
        ({"create_branch": "perhaps", "branch": "b"}, "'create_branch' is 'perhaps'"),
        ({**NEW, "from_version": "0"}, "'from_version' is '0'"),
        ({"max_rows_per_file": "0"}, "'max_rows_per_file' is '0'"),
        ({"max_rows_per_file": "many"}, "'max_rows_per_file' is 'many'"),
        ({"max_bytes_per_file": "0"}, "'max_bytes_per_file' is '0'"),
        ({"enable_stable_row_ids": "2"}, "'enable_stable_row_ids' is '2'"),
    ],
)
def test_a_contradiction_or_a_bad_value_is_refused(given, word):
    with pytest.raises(InvalidOption, match=word):
        parse_write_options(given)


@pytest.mark.parametrize(
    "given",
    [
        {"branch": "a//b"},
        {"branch": ""},
        {"branch": "a/data", "create_branch": "true"},
        {"branch": "main/x", "create_branch": "true"},
        {**NEW, "from_branch": "a b"},
        {**NEW, "from_tag": "a/b"},
    ],
)
def test_a_bad_name_is_refused(given):
    with pytest.raises(InvalidName):
        parse_write_options(given)


def test_an_existing_branch_with_an_unlucky_name_may_still_be_written():
    assert parse_write_options({"branch": "a/data"}).branch == "a/data"


@pytest.mark.parametrize(
    ("option", "near"),
    [
        ("max_row_per_file", "max_rows_per_file"),
        ("createBranches", "create_branch"),
        ("comit_message", "commit_message"),
        ("columns", None),
        ("limit", None),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_one(option, near):
    with pytest.raises(InvalidOption, match=f"Unknown option '{option}' for writing") as caught:
        parse_write_options({option: "1"})
    assert near is None or caught.value.hint == f"Did you mean '{near}'?"
