"""The pages through the application's test client: what is on them, who gets them, and that they change nothing."""

import hashlib
import json
import os
import re
import threading
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.shown_lakes import SCRIPT, shown_lake, shown_table, write
from support.shown_pages import HOST, Tags, client_of, opened, text_of

from lance_spark import LanceCatalog, LanceTable
from lance_spark.storage.datasets import locate
from lance_spark.ui import looking, server
from lance_spark.ui.looking import Subject
from lance_spark.ui.server import Serving

TABLE = "t=shop.products&"
PAGES = [
    "",
    "?at=branch:etl/nightly",
    "tables",
    "tables?q=EVENTS",
    "tables?at=branch:etl/nightly",
    f"table?{TABLE}",
    f"table?{TABLE}ref=exp",
    f"graph?{TABLE}",
    f"graph?{TABLE}count=2",
    f"version?{TABLE}ref=exp",
    f"rows?{TABLE}ref=exp",
    f"diff?{TABLE}a=main&b=exp",
    f"diff-rows?{TABLE}a=main&b=exp",
    f"diff-rows?{TABLE}a=main&b=exp&on=-",
    f"row?{TABLE}column=id&value=7",
    f"story?{TABLE}column=id&value=7&branch=exp",
    f"merge?{TABLE}source=exp&into=main",
    f"merge?{TABLE}source=exp&into=main&prefer=theirs",
    f"indexes?{TABLE}",
    f"storage?{TABLE}",
    f"dependents?{TABLE}",
    f"cleanup?{TABLE}",
    f"check?{TABLE}",
    f"upkeep?{TABLE}",
    "upkeep",
    "costs",
    "cleanups",
    "lake-diff?branch=etl/nightly",
    "lake-merge?branch=etl/nightly",
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return shown_lake(tmp_path_factory.mktemp("pages"), tables=1)


@pytest.fixture(scope="module")
def pages(lake):
    return opened(catalog=lake.catalog)


def contents(root):
    files = [path for path in sorted(Path(root).rglob("*")) if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_all_pages_can_be_looked_at_and_change_nothing(lake, pages):
    before = contents(lake.catalog.uri)
    for page in PAGES:
        found = Tags(text_of(pages, page))
        assert found.scripts == ["/token/static/page.js"], page
        assert found.handlers == [], page
        assert all(each.startswith(("/token/", "data:", "#")) for each in found.addresses), page
    assert "<html" not in text_of(pages, f"graph?{TABLE}", **{"X-Part": "1"})
    assert contents(lake.catalog.uri) == before


def test_texts_of_tables_are_words_and_no_tags(pages):
    for page in (f"rows?{TABLE}ref=exp", f"diff-rows?{TABLE}a=main&b=exp", f"row?{TABLE}column=id&value=7"):
        text = text_of(pages, page)
        assert SCRIPT not in text
        assert SCRIPT in "".join(Tags(text).words)
        assert 'onmouseover="alert' not in text


@pytest.mark.parametrize("value", [SCRIPT, '"><img src=x onerror=alert(1)>', "{{7*7}}", "%00", "\u202e"])
def test_what_an_address_says_is_escaped_too(pages, value):
    for page, status in (
        ("tables", 200),
        ("table", 400 if value else 404),
        ("version", 400),
        ("row", 400),
        ("diff", 400),
        ("merge", 400),
        ("lake-diff", 400),
        (value, 404),
    ):
        query = {
            "q": value,
            "t": "shop.products",
            "ref": value,
            "column": value,
            "value": value,
            "a": value,
            "b": value,
        }
        answer = pages.get(f"/token/{page}", query_string={**query, "source": value, "branch": value})
        assert answer.status_code in (status, 200, 400, 404)
        assert "<script>document" not in (text := answer.get_data(as_text=True))
        assert "<img src=x" not in text
        assert ">49<" not in text
        assert "Traceback" not in text


def test_names_that_turn_the_order_round_are_spelled_out_but_sent_back_as_they_are(tmp_path):
    uri, odd = f"{tmp_path}/t.lance", "\u202eevil\u200b"
    lance.write_dataset(pa.table({"id": [1], odd: ["x"]}), uri)
    lance.dataset(uri).update_config({odd: odd})
    client = opened(location=locate(uri))
    table = text_of(client, "")
    assert f'<option value="{odd}">\\u202eevil\\u200b</option>' in table
    for page in ("rows", "version?ref=main", "graph", "indexes", f"row?column={odd}&value=x"):
        text = text_of(client, page)
        assert odd not in re.sub(f'value="{odd}"', "", text)
    assert "\\u202eevil\\u200b" in text_of(client, "rows")


def test_a_person_finds_which_branch_changed_a_row(pages):
    text = text_of(pages, f"row?{TABLE}column=id&value=7")
    words = " ".join("".join(Tags(text).words).split())
    assert "Branches exp and without-seven changed this row." in words
    assert re.search(r"exp: exp@3 \(update, [-\d]+ [:\d]+ UTC\) changed it", words)
    assert re.search(r"without-seven: without-seven@3 \(delete, [-\d]+ [:\d]+ UTC\) deleted it", words)
    assert "not changed here since the branch was made from main@2" in words  # cheaper, idle: main changed it later
    assert "1 cell differs from main" in words
    assert "all changes" in words
    story = "".join(Tags(text_of(pages, f"story?{TABLE}column=id&value=7&branch=exp")).words)
    assert [each for each in ("exp@3", "main@2", "main@1") if each in story] == ["exp@3", "main@2", "main@1"]
    assert "On main, main@3 (update" in words
    assert "made it what it is" in words
    only = "".join(Tags(text_of(pages, f"row?{TABLE}column=id&value=7&branches=idle")).words)
    assert "No branch changed this row." in only
    assert "There is no branch" in text_of(pages, f"row?{TABLE}column=id&value=7&branches=nope", 404)
    unchanged = "".join(Tags(text_of(pages, f"row?{TABLE}column=id&value=30")).words)
    assert "No branch changed this row." in unchanged


def test_a_row_that_is_asked_for_by_another_value_is_the_one_with_its_key(pages):
    for asked in ("column=price&value=9.99", f"column=name&value={SCRIPT}"):
        words = " ".join("".join(Tags(text_of(pages, f"row?{TABLE}{asked}")).words).split())
        assert "Row with id = 7" in words
        assert re.search(r"exp: exp@3 \(update, [-\d]+ [:\d]+ UTC\) changed it", words)
        assert "added it" not in words
    several = "".join(Tags(text_of(pages, f"row?{TABLE}column=note&value={{{{ 7 * 7 }}}} {{%25 raw %25}}")).words)
    assert "Several rows have this value" in several
    assert "No branch changed rows with this value." in several
    none = "".join(Tags(text_of(pages, f"row?{TABLE}column=name&value=nobody")).words)
    assert "No branch has a row with name = nobody." in none


@pytest.mark.parametrize(
    ("asked", "form", "kept"),
    [
        ("row?{t}column=id&value=seven", "Which branch changed it?", 'value="seven"'),
        ("row?{t}column=nope&value=7", "Which branch changed it?", '<option value="id" selected>id</option>'),
        (
            "row?{t}column=price&value=cheap",
            "Which branch changed it?",
            '<option value="price" selected>price</option>',
        ),
        ("row?{t}column=id&value=7&branches=nope", "Which branch changed it?", 'value="7"'),
        ("story?{t}column=id&value=seven", "Which branch changed it?", 'value="seven"'),
        ("diff?{t}a=main&b=exq", "Difference", 'name="b" value="exq"'),
        ("diff?{t}", "Difference", 'name="a" value="main"'),
        ("merge?{t}source=exq&into=cheaper", "Review", '<option value="cheaper" selected>cheaper</option>'),
    ],
)
def test_a_mistake_in_a_form_gets_the_form_again(pages, asked, form, kept):
    answer = pages.get("/token/" + asked.format(t=TABLE))
    text = answer.get_data(as_text=True)
    assert answer.status_code in (400, 404)
    assert 'role="alert"' in text
    assert f"<button>{form}</button>" in text
    assert kept in text


def test_nobody_is_named_where_no_author_is_recorded_and_once_how_to(pages):
    for page in (f"row?{TABLE}column=id&value=7", f"version?{TABLE}ref=exp", f"graph?{TABLE}"):
        assert text_of(pages, page).count("Author not recorded.") == 1
        assert "LANCE_AUTHOR=" in text_of(pages, page)


def test_a_review_shows_both_values_and_the_commands(pages):
    text = "".join(Tags(text_of(pages, f"merge?{TABLE}source=exp&into=main")).words)
    assert all(part in text for part in ("cannot be merged", "id=7", "4.25", "9.99", "3.5", "Take theirs"))
    assert "Merge now" not in text
    ready = "".join(Tags(text_of(pages, f"merge?{TABLE}source=cheaper&into=main")).words)
    assert all(
        part in ready for part in ("can be merged", "lance-git -C", "CALL lake.system.merge_branch", "branches.merge")
    )


def test_the_lake_has_its_tables_branches_and_health(lake, tmp_path):
    report = tmp_path / "report.json"
    finding = {"severity": "error", "path": "data/x.lance", "says": "is missing"}
    table = {"table": "shop.products", "uri": "", "findings": [finding], "error": ""}
    report.write_text(json.dumps({"catalog": lake.catalog.uri, "tables": [table], "findings": []}))
    client = opened(catalog=lake.catalog, reports=(str(report), str(tmp_path / "missing.json")))
    words = "".join(Tags(text_of(client, "tables")).words)
    assert all(part in words for part in ("2 tables", "shop.products", "59", "main@4", "damaged", "no report"))
    assert "etl/nightly" in text_of(client, "")
    upkeep = text_of(client, "upkeep")
    assert "data/x.lance" in upkeep
    assert "there is no such file" in upkeep
    on_branch = text_of(client, "tables?at=branch:etl/nightly&q=events")
    assert '<td class="number" data-label="rows">5</td>' in on_branch  # 3 on main
    assert "at=branch%3Aetl%2Fnightly" in on_branch
    table = "".join(Tags(text_of(client, "table?t=raw.events_00&at=branch:etl/nightly")).words)
    assert "5 rows" in table
    assert "lake/etl/nightly-" in table


def test_of_a_directory_the_newest_report_of_each_kind_counts(lake, tmp_path, monkeypatch):
    def written(name, says, age, catalog=lake.catalog.uri):
        finding = {"severity": "error", "path": "data/x.lance", "says": says}
        table = {"table": "shop.products", "uri": "", "findings": [finding], "error": ""}
        (tmp_path / name).write_text(json.dumps({"catalog": catalog, "tables": [table], "findings": []}))
        os.utime(tmp_path / name, (10**9 - age, 10**9 - age))

    written("a.json", "is the older one", 100)
    written("b.json", "is the newer one", 10)
    written("c.json", "is of another lake", 1, catalog="/elsewhere")
    (tmp_path / "state.json").write_text("{}")
    (tmp_path / "d.txt").write_text("no report")
    monkeypatch.setattr(looking, "KNOWN_PLACE", str(tmp_path))
    for reports in ((str(tmp_path),), (f"{tmp_path}/",), ()):
        words = text_of(opened(catalog=lake.catalog, reports=reports), "upkeep")
        assert "is the newer one" in words
        assert "is the older one" not in words
        assert ("is of another lake" in words) is bool(reports)
        assert "cannot be read" not in words
    assert "damaged" in text_of(opened(catalog=lake.catalog), "tables")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no report is there" in text_of(opened(catalog=lake.catalog, reports=(str(empty),)), "upkeep")
    monkeypatch.setattr(looking, "KNOWN_PLACE", str(tmp_path / "gone"))
    assert "None is known." in text_of(opened(catalog=lake.catalog), "upkeep")


def test_what_a_cleanup_would_delete_of_a_lake_comes_in_parts(tmp_path, monkeypatch):
    lake = LanceCatalog(str(tmp_path / "lake"))
    for name in "abc":
        write(lake, name, pa.table({"id": [1]}))
        stray = Path(lake.describe_table(name).location.uri, "data", "0" * 24 + ".lance")
        stray.write_bytes(b"x" * 1024)
        os.utime(stray, (10**9, 10**9))
    for manifest in Path(lake.describe_table("b").location.uri, "_versions").iterdir():
        manifest.write_bytes(b"x")
    monkeypatch.setattr(looking, "_CLEANUP_TABLES", 1)
    monkeypatch.setattr(looking, "_AT_ONCE", 2)
    client = opened(catalog=lake.catalog)
    first = text_of(client, "cleanups")
    words = "".join(Tags(first).words)
    assert "2 of 3 tables looked at: 1 file, 1.0 KiB would be deleted" in words
    assert "no version names it" in words
    assert "✕" in words
    following = re.search(r'data-load="/token/([^"]+)"', first).group(1).replace("&amp;", "&")
    last = text_of(client, following)
    assert "All of 3 tables looked at: 2 files, 2.0 KiB would be deleted" in last
    assert "data-load" not in last


# --- Who gets an answer


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:9", "127.0.0.1", "127.0.0.1.evil.example:8000", ""])
def test_another_host_gets_nothing(pages, host):
    answer = pages.get("/token/", headers={"Host": host})
    assert answer.status_code in (400, 403)
    assert "shop" not in answer.get_data(as_text=True)


@pytest.mark.parametrize("host", [HOST, "localhost:8000", "[::1]:8000"])
def test_names_of_the_loopback_get_an_answer(pages, host):
    assert pages.get("/token/upkeep", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/", "/wrong/", "/toke/", "/tokenx/", "/static/page.css", "//token/", "/wrong/static/page.js"]
)
def test_without_the_token_there_is_nothing(pages, path):
    answer = pages.get(path)
    assert answer.status_code == 403
    assert "token" in answer.get_data(as_text=True)
    assert "lake" not in answer.get_data(as_text=True).lower().replace("lance_spark", "")


def test_another_sites_page_gets_nothing(pages):
    other = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert pages.get("/token/upkeep", headers=other).status_code == 403
    assert pages.get("/token/upkeep", headers={**other, "Sec-Fetch-Mode": "navigate"}).status_code == 200
    assert "Access-Control-Allow-Origin" not in pages.get("/token/upkeep", headers={"Origin": "http://x"}).headers


def test_every_answer_has_the_policy(pages):
    for page, status in (("/token/upkeep", 200), ("/token/nothing", 404), ("/", 403), ("/token/static/page.js", 200)):
        answer = pages.get(page)
        assert answer.status_code == status
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"


# --- Merging


def test_nothing_can_be_merged_unless_it_is_allowed(lake, pages):
    form = {
        "t": "shop.products",
        "source": "cheaper",
        "into": "main",
        "seen_source": "cheaper@3",
        "seen_into": "main@4",
    }
    before = contents(lake.catalog.uri)
    assert pages.post("/token/do-merge", data=form, headers={"Origin": f"http://{HOST}"}).status_code == 404
    allowed = opened(True, catalog=lake.catalog)
    for headers in ({}, {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:9"}):
        assert allowed.post("/token/do-merge", data=form, headers=headers).status_code == 403
    crossed = {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "cross-site"}
    assert allowed.post("/token/do-merge", data=form, headers=crossed).status_code == 403
    assert allowed.get("/token/do-merge", query_string=form).status_code == 405
    own = {"Origin": f"http://{HOST}"}
    stale = allowed.post("/token/do-merge", data={**form, "seen_into": "main@3"}, headers=own)
    assert stale.status_code == 409
    assert "main@3 was reviewed" in stale.get_data(as_text=True)
    assert contents(lake.catalog.uri) == before


def test_the_button_merges_what_was_reviewed(tmp_path):
    uri = shown_table(f"{tmp_path}/products.lance")
    client = opened(True, location=locate(uri))
    review = text_of(client, "merge?source=cheaper&into=main")
    form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', review))
    answer = client.post("/token/do-merge", data=form, headers={"Origin": f"http://{HOST}"})
    assert answer.status_code == 200
    assert lance.dataset(uri).to_table(filter="id = 2")["price"].to_pylist() == [2.5]
    assert client.post("/token/do-merge", data=form, headers={"Origin": f"http://{HOST}"}).status_code == 409


@pytest.mark.when(day=0)
@pytest.mark.parametrize("passes", [True, False])
def test_a_branch_of_the_lake_is_merged_if_the_audit_passes(tmp_path, passes):
    lake, seen = shown_lake(tmp_path, tables=1), []

    def audit(merged):
        seen.append(merged)
        return passes

    client = client_of(Serving(Subject(catalog=lake.catalog), True, audit, token="token"))
    review = text_of(client, "lake-merge?branch=etl/nightly")
    assert "Audit and merge" in review
    assert "None is recorded." in review
    form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', review))
    answer = client.post("/token/do-lake-merge", data=form, headers={"Origin": f"http://{HOST}"})
    assert answer.status_code == (200 if passes else 409)
    assert ("The audit failed; nothing was published" in answer.get_data(as_text=True)) is not passes
    assert len(seen) == 1
    said = "".join(Tags(text_of(client, "lake-merge?branch=etl/nightly")).words)
    assert ("The last audit passed." if passes else "The last audit failed.") in said
    assert ("The audit failed; nothing was published." in said) is not passes
    write(lake.checkout(branch="etl/nightly"), "raw.events_00", pa.table({"id": pa.array([102], pa.int64())}))
    later = "".join(Tags(text_of(client, "lake-merge?branch=etl/nightly")).words)
    assert f"The branch has changed since the last audit, which {'passed' if passes else 'failed'}." in later
    assert lake.table("raw.events_00").count_rows() == (5 if passes else 3)
    again = client.post("/token/do-lake-merge", data={**form, "seen": "x@1"}, headers={"Origin": f"http://{HOST}"})
    assert again.status_code == 409


# --- What cannot be read


@pytest.mark.when(day=0)  # it needs a lake of its own; by day a damaged branch is enough
def test_a_table_that_is_damaged_says_so_and_hides_no_other(tmp_path):
    lake = shown_lake(tmp_path, tables=1)
    broken = Path(lake.describe_table("shop.products").location.uri)
    for manifest in (broken / "_versions").iterdir():
        manifest.write_bytes(manifest.read_bytes()[:20])
    client = opened(catalog=lake.catalog)
    text = text_of(client, "tables")
    assert "✕" in text
    assert "raw.events_00" in text
    for page in (f"table?{TABLE}", f"graph?{TABLE}", f"diff?{TABLE}a=main&b=exp", f"row?{TABLE}column=id&value=7"):
        answer = client.get(f"/token/{page}")
        assert answer.status_code in (404, 422)
        assert "Traceback" not in answer.get_data(as_text=True)
        assert 'role="alert"' in answer.get_data(as_text=True)


def test_a_branch_that_is_damaged_does_not_hide_the_row_on_others(tmp_path):
    uri = shown_table(f"{tmp_path}/products.lance")
    for manifest in Path(uri, "tree", "exp", "_versions").iterdir():
        manifest.write_bytes(b"x")
    words = "".join(Tags(text_of(opened(location=locate(uri)), "row?column=id&value=7")).words)
    assert "could not be read" in words
    assert "without-seven" in words


def test_whoever_made_main_what_it_is_is_named_with_the_message(tmp_path, monkeypatch):
    uri = shown_table(f"{tmp_path}/products.lance")
    monkeypatch.setenv("LANCE_AUTHOR", "Anna <Berg>")
    LanceTable.for_path(uri).branches.merge("exp", message="prices of May", prefer="theirs", on="id")
    text = text_of(opened(location=locate(uri)), "row?column=id&value=7")
    assert "Author not recorded" not in text_of(opened(location=locate(uri)), "version?ref=main")
    assert ", by Anna <Berg>: “prices of May”." in "".join(Tags(text).words).partition("On main, ")[2]
    assert "<Berg>" not in text


def test_a_store_that_does_not_answer_is_told_of(lake, monkeypatch):
    client = client_of(Serving(Subject(catalog=lake.catalog), token="token", patience=0.05))
    monkeypatch.setattr(server.looking, "look_at_lake", lambda *_: __import__("time").sleep(0.5))
    text = text_of(client, "", 504)
    assert "has not answered" in text
    assert "Load it again" in text


def test_a_whole_page_that_waits_says_so_and_the_rest_takes_up_what_was_begun(lake, monkeypatch):
    answered, begun = threading.Event(), []

    def look(*_):
        begun.append(1)
        answered.wait(10)
        return looking_at_lake(Subject(catalog=lake.catalog), "")

    looking_at_lake = looking.look_at_lake
    monkeypatch.setattr(server, "_SOON", 0.05)
    monkeypatch.setattr(server.looking, "look_at_lake", look)
    client = client_of(Serving(Subject(catalog=lake.catalog), token="token"))
    first = text_of(client, "?q=%22%3E%3Cb%3E", 202)
    assert "The store has not answered for" in first
    assert 'data-load="/token/?q=%22%3E%3Cb%3E"' in first
    assert Tags(first).scripts == ["/token/static/page.js"]
    answered.set()
    part = text_of(client, "?q=%22%3E%3Cb%3E", **{"X-Part": "1"})
    assert "<html" not in part
    assert "etl/nightly" in part
    assert len(begun) == 1
    assert "etl/nightly" in text_of(client, "")
    assert len(begun) == 2


@pytest.mark.parametrize(
    ("name", "most"), [("t", 2_000), ("q", 2_000), ("ref", 2_000), ("value", 12_000), ("branches", 12_000)]
)
def test_names_too_long_for_anything_are_not_echoed(pages, name, most):
    text = pages.get("/token/tables", query_string={name: "x" * (most + 1)}).get_data(as_text=True)
    assert f"{most + 1:,} characters" in text
    assert "xxxx" not in text
    assert pages.get("/token/tables", query_string={name: "x" * most}).status_code == 200


def test_a_fault_of_ours_is_no_traceback(pages, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("s3://user:secret@bucket/x")

    monkeypatch.setattr(server.looking, "look_at_graph", fail)
    text = text_of(pages, f"graph?{TABLE}", 500)
    assert "ZeroDivisionError" in text
    assert "Traceback" not in text
    assert "secret" not in text


@pytest.mark.parametrize(
    "page", ["graph?count=-1", "graph?count=x", "tables?start=1e9", "diff", "merge", "row?column=id"]
)
def test_odd_addresses_are_refused_with_a_reason(pages, page):
    name, _, query = page.partition("?")
    answer = pages.get(f"/token/{name}?{TABLE}{query}")
    assert answer.status_code == 400
    assert 'role="alert"' in answer.get_data(as_text=True)
