"""Whatever stands in a file, an option or a statement: the answer, or an error of ours, never of somebody else's."""

import json
from contextlib import suppress
from datetime import datetime, timezone
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.manifest_bytes import data_file, fragment, head, index, manifest_file

from lance_spark.catalog import entry_rules, lake_rules, name_rules
from lance_spark.catalog import publish_rules as lake
from lance_spark.cleanup.retention_rules import parse_policy
from lance_spark.core import ref_expressions, refs, table_options, workspace
from lance_spark.core.catalog_options import CATALOG_OPTIONS, take_catalog
from lance_spark.core.lifetimes import read_lifetime
from lance_spark.core.policy_files import read_toml
from lance_spark.core.records import reflog, repair_record, tracking
from lance_spark.core.ref_files import parse_branch, parse_main, parse_tag
from lance_spark.core.ref_names import check_new_branch_name, check_new_tag_name
from lance_spark.errors import LanceSparkError
from lance_spark.format import contents, manifest, stream_notes, transactions, versions
from lance_spark.maintenance.policy_rules import parse_maintenance, read_memory
from lance_spark.sql import statement_rules as sql
from lance_spark.streams.source_rules import parse_offset

pytestmark = pytest.mark.pure

MANY = settings(max_examples=settings.default.max_examples * 4)
"""By day some fifty for each reader; at night four thousand, a hundred thousand and more in all."""
DEEP = b"[" * 100_000
NOW = datetime(2026, 11, 24, tzinfo=timezone.utc)
WHOLE = manifest_file(fragment(0, [data_file("0.lance")]) + head(), index(UUID(int=1)))
BRANCH = b'{"parentBranch":null,"parentVersion":3,"createAt":1700000000,"manifestSize":9,"metadata":{"a":"b"}}'
TAG = b'{"branch":"exp","version":3,"createdAt":"2026-01-01T00:00:00Z","manifestSize":9,"metadata":{}}'
JOURNAL = lake.Journal(
    1,
    "0123abcd",
    "etl",
    NOW.isoformat(),
    (lake.JournalTable("a", "d", "etl", 2, 1),),
    (lake.EntryChange(None, entry_rules.Entry("a", "table", "d")),),
)
OUTCOME = lake.PublishOutcome(1, "0123abcd", lake.PUBLISHED, (lake.TableOutcome("d", 1, 2),))
VERDICT = lake.PublishVerdict("0123abcd", lake.PUBLISHED, (lake.LakeConflict("a", "why"),))
LAKE_TAG = lake_rules.LakeTag("v1", "0123abcd", NOW, 3, True)


def row(metadata):
    return entry_rules.Entry("a", "table", "d", metadata)


def of_text(read):
    """A reader of bytes that takes text."""
    return lambda content: read(content.decode("utf-8", "surrogateescape"))


FILES = {
    "branch": (lambda content: parse_branch("exp", content), BRANCH),
    "tag": (lambda content: parse_tag("v1", content), TAG),
    "main": (parse_main, b'{"metadata":{"expire_after":"30d"}}'),
    "repair record": (
        repair_record.read_record,
        b'{"format":1,"id":"x","dataset":"/d","made":"now","software":"1","steps":[{"kind":"quarantine"}]}',
    ),
    "reflog": (
        lambda content: reflog.decode("x.json", content),
        b'{"format":1,"kind":"tag","name":"v1","before":null}',
    ),
    "workspace": (of_text(workspace.parse_workspace), b'dataset = "/data/x.lance"\nbranch = "exp"\n'),
    "toml": (of_text(read_toml), b'a = 1\n[b]\nc = "d"\n'),
    "cleanup policy": (of_text(parse_policy), b'older_than = "14d"\n[branches.exp]\nretain_versions = 3\n'),
    "maintenance policy": (of_text(parse_maintenance), b'[cleanup]\nolder_than = "14d"\n[[tables]]\nname = "a.*"\n'),
    "memory of maintenance": (of_text(read_memory), b'{"format":1,"tables":{}}'),
    "note of streams": (
        lambda content: stream_notes.decode_note(content, "id"),
        b'{"format":1,"identity":"id","versions":{}}',
    ),
    "query id": (
        lambda content: stream_notes.parse_query_id(content, "/c"),
        b'{"id":"0a1b2c3d-0000-1111-2222-333344445555"}',
    ),
    "mark of a directory": (entry_rules.read_mark, entry_rules.Mark("drop", "token").encode()),
    "metadata of a row": (
        of_text(lambda text: entry_rules.Entry("a", "table", "d", text).pin),
        b'{"lance_spark.lake":"{}"}',
    ),
    "properties of a row": (of_text(lambda text: entry_rules.Entry("a", "table", "d", text).properties), b'{"a":1}'),
    "tag of the lake": (
        of_text(lambda text: lake_rules.decode_ref(lake_rules.TAG, text, "v1")),
        LAKE_TAG.encode().encode(),
    ),
    "pin": (of_text(lambda text: lake_rules.decode_pin({lake_rules.KEY: text}, "t")), b'{"version":3,"branch":"b"}'),
    "journal": (lambda content: lake.decode(lake.Journal, content, "j"), JOURNAL.encode()),
    "outcome": (lambda content: lake.decode(lake.PublishOutcome, content, "o"), OUTCOME.encode()),
    "verdict": (lambda content: lake.decode(lake.PublishVerdict, content, "v"), VERDICT.encode()),
    "manifest": (contents.decode_contents, WHOLE),
    "fragments of a manifest": (lambda content: contents.decode_contents(content).fragments(), WHOLE),
    "head of a manifest": (manifest.decode_head, WHOLE),
    "files of a manifest": (manifest.named_files, WHOLE),
    "indexes of a manifest": (contents.decode_indexes, WHOLE),
    "transaction": (transactions.decode_transaction, bytes([8, 1, 18, 4]) + b"uuid"),
}


@st.composite
def damaged(draw, content: bytes) -> bytes:
    """A file of which a part was lost, doubled or replaced; or JSON of the same shape with other values."""
    way = draw(st.sampled_from(["slice", "bytes", "json", "any"]))
    if way == "any":
        return draw(st.binary(max_size=80) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace")))
    if way == "json":
        try:
            return json.dumps(draw(_other(json.loads(content)))).encode()
        except (ValueError, UnicodeDecodeError):
            way = "slice"
    start = draw(st.integers(0, len(content)))
    end = draw(st.integers(start, len(content)))
    put = content[start:end] * 2 if way == "slice" and draw(st.booleans()) else b""
    return content[:start] + (put if way == "slice" else draw(st.binary(max_size=8))) + content[end:]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)


def _other(value):
    """JSON of the same shape, with some values and keys replaced."""
    if isinstance(value, dict):
        same = st.fixed_dictionaries({}, optional={key: _other(each) for key, each in value.items()})
        return same | st.tuples(same, st.dictionaries(st.text(max_size=6), VALUES, max_size=2)).map(
            lambda both: {**both[0], **both[1]}
        )
    if isinstance(value, list):
        return st.tuples(*map(_other, value)).map(list) | VALUES
    return st.just(value) | VALUES


def answers(read, *given) -> None:
    """Call it; an error of this package is an answer."""
    with suppress(LanceSparkError):
        read(*given)


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_read_or_told(name):
    read, content = FILES[name]

    @MANY
    @given(damaged(content))
    @example(content)
    @example(b"")
    @example(b"null")
    @example(b"[[[[[[[[")
    @example(DEEP)
    @example(b'{"version":1e999}')
    def check(changed):
        answers(read, changed)

    check()


TEXTS = {
    "ref": ref_expressions.parse_expression,
    "range": ref_expressions.parse_range,
    "version in SQL": ref_expressions.parse_version_text,
    "name": name_rules.split_name,
    "name of a table": name_rules.identify_table,
    "name of a namespace": name_rules.identify_namespace,
    "name with a ref": lambda text: entry_rules.readings(name_rules.split_name(text)),
    "new branch": check_new_branch_name,
    "new tag": check_new_tag_name,
    "new branch of the lake": lambda text: lake_rules.check_new_ref(lake_rules.BRANCH, text),
    "new tag of the lake": lambda text: lake_rules.check_new_ref(lake_rules.TAG, text),
    "location of a row": name_rules.check_inside,
    "statement": lambda text: (lambda found: found and sql.parse(found))(sql.opened(text)),
    "comments": sql.without_comments,
}
LIKE_NAMES = st.text("ab.`@/$\\\"'~^#-_*?%\0\n é…1290{}[]()=:", max_size=24)
SAID = """OPTIMIZE VACUUM RESTORE TABLE DESCRIBE HISTORY ALTER CREATE REPLACE DROP BRANCH TAG TO VERSION AS OF TIMESTAMP
WHERE ZORDER BY RETAIN HOURS DRY RUN LIMIT IF NOT EXISTS a.b `x@y` ( ) , ; 'x' " -- /* */ 1 -1 1e9 ? :p"""
WORDS = st.lists(st.sampled_from(SAID.split()), max_size=9).map(" ".join)


@pytest.mark.parametrize("name", TEXTS)
def test_any_text_is_read_or_told(name):
    @MANY
    @given(LIKE_NAMES | WORDS | st.text(max_size=300))
    @example("x" * 100_000)
    @example("`" * 9_999)
    @example("a." * 9_999)
    def check(text):
        answers(TEXTS[name], text)

    check()


OPTIONS = {
    "reads": (table_options.parse_read_options, table_options.READ_OPTIONS),
    "writes": (table_options.parse_write_options, table_options.WRITE_OPTIONS),
    "refs": (table_options.parse_ref, ("branch", "tag", "version", "asOf")),
    "catalogs": (lambda given: take_catalog(given, "load"), (*CATALOG_OPTIONS, "path")),
    "settings of statements": (sql.parse_statement_options, (sql.RETRIES, sql.COMMIT_MESSAGE)),
    "lifetimes": (read_lifetime, ("expire_after", "retain_versions", "owner", "protected")),
    "traces of merges": (
        versions.read_trace,
        ("lance_spark.action", "lance_spark.source", "lance_spark.source_version"),
    ),
}
SPELLED = st.sampled_from(
    [
        "",
        " ",
        "true",
        "FALSE",
        "0",
        "-1",
        "1e3",
        "1_000",
        "٣",
        "9" * 30,
        "30d",
        "-1h",
        "main",
        "a@b",
        "2026-01-01",
        "NaN",
        "inf",
    ]
)


@pytest.mark.parametrize("name", OPTIONS)
def test_any_options_are_taken_or_told(name):
    read, known = OPTIONS[name]
    keys = st.sampled_from(sorted(map(str, known))) | st.text(max_size=12)

    @MANY
    @given(st.dictionaries(keys, SPELLED | LIKE_NAMES, max_size=5))
    def check(given_options):
        answers(read, given_options)

    check()


@MANY
@given(_other({"format": 1, "line": "x", "begin": 3, "snapshot": True, "version": 3, "branch": None}))
def test_any_offset_of_a_checkpoint_is_read_or_told(offset):
    if isinstance(offset, dict):
        answers(parse_offset, offset)


@MANY
@given(_other(dict.fromkeys(("lance_spark.follows", "lance_spark.merged.a"), "x")))
def test_any_metadata_of_a_branch_is_read_or_told(metadata):
    values = {str(key): str(value) for key, value in metadata.items()} if isinstance(metadata, dict) else {}
    branch = refs.Branch("origin/exp", None, 1, NOW, values)
    answers(tracking.read_follows, branch)
    answers(lambda: list(tracking.merged_notes([branch])))


def test_the_kinds_of_files_are_those_that_exist():
    """A sound file is read: otherwise the damaged ones would prove nothing."""
    for name in (
        "branch",
        "tag",
        "main",
        "workspace",
        "tag of the lake",
        "pin",
        "journal",
        "outcome",
        "verdict",
        "manifest",
    ):
        read, content = FILES[name]
        assert read(content) is not None, name
