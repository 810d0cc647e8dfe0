"""Rows looked up by what only a branch has: a column, or its type; and changes beneath versions that change no row."""

import lance
import pyarrow as pa
import pytest
from support.shown_pages import Tags, opened, text_of

from lance_spark.errors import InvalidOption
from lance_spark.storage.datasets import locate
from lance_spark.ui import row_history, row_rules
from lance_spark.ui.row_history import columns_of_branches, find_row, tell_row


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    """Branch ``scored`` has a column of its own, and ``typed`` has texts in column ``code``."""
    uri = f"{tmp_path_factory.mktemp('columns')}/t.lance"
    lance.write_dataset(pa.table({"id": [1, 2, 3], "code": pa.array([10, 20, 30], pa.int64())}), uri)
    for name in ("scored", "typed"):
        lance.dataset(uri).create_branch(name)
    scored, typed = (lance.dataset(f"{uri}/tree/{name}") for name in ("scored", "typed"))
    scored.add_columns({"score": "cast(id * 100 as bigint)"})
    lance.dataset(f"{uri}/tree/scored").update({"score": "777"}, where="id = 2")
    typed.drop_columns(["code"])
    lance.dataset(f"{uri}/tree/typed").add_columns({"code": "concat('c', cast(id as string))"})
    return uri


def test_a_value_of_a_column_that_only_a_branch_has_leads_to_its_row(uri):
    page = find_row(locate(uri), "score", "777")
    assert (page.column, page.value, page.asked) == ("id", "2", ("score", "777"))
    assert "score" in page.askable
    assert page.answer == "Branches scored and typed changed this row."
    scored = next(one for one in page.branches if one.branch == "scored")
    assert str(scored.change.entry.pin) == "scored@3"
    assert [str(one.entry.pin) for one in tell_row(locate(uri), "scored", "score", "777").changes] == ["scored@3"]


def test_a_value_counts_where_the_column_has_its_type(uri):
    page = find_row(locate(uri), "code", "c3")
    assert (page.column, page.value) == ("id", "3")
    assert find_row(locate(uri), "code", "20").value == "2"
    with pytest.raises(InvalidOption, match="'c3' is not a value of column 'code', which is int64"):
        find_row(locate(uri), "code", "c3", ["scored"])
    with pytest.raises(InvalidOption, match="cannot be looked up by column 'nope'") as refused:
        find_row(locate(uri), "nope", "1")
    assert "score" in str(refused.value.hint)


def test_the_form_has_the_columns_of_branches(uri):
    assert columns_of_branches(locate(uri)) == {"score": ("scored",)}
    client = opened(location=locate(uri))
    assert 'data-load="/token/columns"' in text_of(client, "table")
    part = text_of(client, "columns", **{"X-Part": "1"})
    assert '<option value="score">score</option>' in part
    assert "score (scored)" in " ".join("".join(Tags(part).words).split())
    again = text_of(client, "row?column=score&value=many", 400)
    assert '<option value="score" selected>score</option>' in again


def test_a_change_beneath_versions_that_change_no_row_is_named(tmp_path, monkeypatch):
    uri = f"{tmp_path}/t.lance"
    dataset = lance.write_dataset(pa.table({"id": [1, 2], "name": ["a", "b"]}), uri)
    for number in range(8):
        dataset.update_config({"number": str(number)})
    dataset.create_branch("exp")
    lance.dataset(f"{uri}/tree/exp").update({"name": "'x'"}, where="id = 2")
    monkeypatch.setattr(row_history, "_FIRST", 3)
    monkeypatch.setattr(row_history, "_VERSIONS", 5)
    page = find_row(locate(uri), "id", "2")
    (exp,) = page.changed_by
    assert (str(exp.change.entry.pin), exp.change.said) == ("exp@10", "changed it")
    assert [str(one.entry.pin) for one in tell_row(locate(uri), "exp", "id", "2").changes] == ["exp@10"]


@pytest.mark.pure
def test_which_values_can_be_asked_for():
    whole, text = (pa.schema([("code", kind)]) for kind in (pa.int64(), pa.string()))
    other = pa.schema([("score", pa.float64())])
    row_rules.check_asked([whole, text], "code", "c3")
    row_rules.check_asked([whole, other], "score", "1.5")
    assert row_rules.askable_in([whole, other, text]) == ("code", "score")
    for column, value in (("code", "c3"), ("score", "x"), ("nope", "1")):
        with pytest.raises(InvalidOption):
            row_rules.check_asked([whole, other], column, value)
