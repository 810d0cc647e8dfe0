"""lance-catalog, verb by verb; pylance reads what came of it."""

import shlex
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace
from lance_namespace_urllib3_client.models import DescribeNamespaceRequest, DescribeTableRequest
from support.command_line import CATALOG_SCRIPT, append, call, catalog, catalog_main, run

from lance_spark import CleanupPolicy, LanceTable
from lance_spark.catalog.lake import list_refs
from lance_spark.catalog.lake_rules import TAG
from lance_spark.catalog.lookup import create_namespace, open_catalog
from lance_spark.catalog.tables import declare_table
from lance_spark.cli.catalog.verbs import doctor
from lance_spark.clones.clone import shallow_clone
from lance_spark.errors import Refused
from lance_spark.refs.refs import create_branch_at
from lance_spark.storage.datasets import locate, pin_latest

EMPTY = pa.table({"id": pa.array([], pa.int64())})


def make_lake(parent: Path) -> Path:
    """ns1, ns1.ns2 with a property; flights in it, with a branch; declared in ns1; trips, of V1 only."""
    root = parent / "lake"
    opened = open_catalog(str(root))
    create_namespace(opened, "ns1")
    create_namespace(opened, "ns1.ns2", {"owner": "me"})
    flights = declare_table(opened, "ns1.ns2.flights", {"team": "air"}).location.uri
    lance.write_dataset(EMPTY, flights)
    append(flights, None, 10)
    lance.dataset(flights).create_branch("exp", ("main", 1))
    declare_table(opened, "ns1.declared")
    lance.write_dataset(EMPTY, f"{root}/trips.lance")
    return root


@pytest.fixture
def lake(tmp_path):
    """See ``make_lake``."""
    return make_lake(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One that nothing is changed in."""
    return make_lake(tmp_path_factory.mktemp("shared"))


def names(root):
    return [item["name"] for item in catalog(root, "ls", "-r", "--json").json["items"]]


def pylance(root):
    return DirectoryNamespace(root=str(root), dir_listing_to_manifest_migration_enabled="true")


def rows(root, *parts):
    """Rows of a table, read where pylance's namespace says that it is."""
    return lance.dataset(pylance(root).describe_table(DescribeTableRequest(id=list(parts))).location).count_rows()


ALL = ["ns1", "ns1.declared", "ns1.ns2", "ns1.ns2.flights", "trips"]


def test_du_has_a_row_a_table_the_largest_first_and_what_cannot_be_looked_at_as_its_error(lake):
    told = catalog(lake, "du")
    assert told.code == 0
    assert told.out.splitlines()[1].split()[0] == "ns1.ns2.flights"
    assert told.out.splitlines()[-1].startswith("3 tables, ")
    data = catalog(lake, "du", "ns1", "--json").json
    assert [row["table"] for row in data["tables"]] == ["ns1.ns2.flights", "ns1.declared"]
    assert data["tables"][0]["report"]["refs"]
    refs = lake / "trips.lance" / "_refs" / "tags"
    refs.mkdir(parents=True)
    (refs / "broken.json").write_text("{")
    broken = catalog(lake, "du")
    assert broken.code == 22
    assert "1 table could not be looked at" in broken.out
    assert catalog(lake, "du", "nowhere").code == 10


def test_ls_lists_one_level_or_all_and_a_table_alone(shared):
    assert catalog(shared, "ls").out.splitlines() == ["ns1.", "trips"]
    assert catalog(shared, "ls", "ns1").out.splitlines() == ["ns1.declared", "ns1.ns2."]
    assert names(shared) == ALL
    assert catalog(shared, "ls", "ns1.ns2.flights").out.splitlines() == ["ns1.ns2.flights"]
    header, *lines = catalog(shared, "ls", "-l").out.splitlines()
    assert header.split() == ["kind", "name", "directory"]
    assert [line.split(maxsplit=2) for line in lines] == [
        ["namespace", "ns1"],
        ["table", "trips", "trips.lance (not registered)"],
    ]
    (flights,) = catalog(shared, "ls", "ns1.ns2", "--json").json["items"]
    assert (flights["kind"], flights["id"], flights["registered"]) == ("table", ["ns1", "ns2", "flights"], True)
    assert lance.dataset(flights["location"]).count_rows() == 1


def test_tree_draws_all_of_it_or_a_namespace(shared):
    assert catalog(shared, "tree").out.splitlines() == [
        str(shared),
        "├── ns1.",
        "│   ├── declared",
        "│   └── ns2.",
        "│       └── flights",
        "└── trips",
        "",
        "2 namespaces, 3 tables",
    ]
    assert catalog(shared, "tree", "ns1.ns2").out.splitlines()[:2] == ["ns1.ns2.", "└── flights"]


def test_describe_tells_what_is_in_a_table(shared):
    found = catalog(shared, "describe", "ns1.ns2.flights", "--json").json
    assert (found["newest"]["version"], found["newest"]["rows"], found["branches"]) == (2, 1, ["exp"])
    assert [column["path"] for column in found["newest"]["columns"]] == ["id"]
    assert (found["properties"], found["registered"], found["declared"]) == ({"team": "air"}, True, False)
    text = catalog(shared, "describe", "ns1.ns2.flights").out
    assert "  version     2, 1 row, committed " in text
    assert "  properties  team = air\n" in text
    assert "none yet: the table is only declared" in catalog(shared, "describe", "ns1.declared").out
    assert "only a directory" in catalog(shared, "describe", "trips").out
    assert catalog(shared, "describe", "ns1.ns2", "--json").json["properties"] == {"owner": "me"}
    assert catalog(shared, "describe", "--json").json["kind"] == "namespace"


def test_modes_show_what_their_clients_see(shared):
    assert names(shared) == ALL
    for mode, seen in (("v1", ["trips"]), ("v2", ALL[:-1])):
        assert [item["name"] for item in catalog(shared, "--mode", mode, "ls", "-r", "--json").json["items"]] == seen


def test_create_makes_namespaces_and_takes_names_for_tables(lake):
    assert "was created" in catalog(lake, "create", "ns3", "-p", "owner=me", "-p", "note=a=b").out
    described = pylance(lake).describe_namespace(DescribeNamespaceRequest(id=["ns3"]))
    assert described.properties == {"owner": "me", "note": "a=b"}
    done = catalog(lake, "create", "a.b.c", "--parents", "--json").json
    assert (done["parents"], done["created"]) == (["a", "a.b"], True)
    assert catalog(lake, "create", "a.b.c", "--parents", "--json").json["created"] is False
    made = catalog(lake, "create", "a.t", "--table", "-p", "team=air", "--json").json
    lance.write_dataset(EMPTY, made["location"])
    assert rows(lake, "a", "t") == 0
    assert catalog(lake, "describe", "a.t", "--json").json["properties"] == {"team": "air"}


def test_alter_sets_and_removes_properties(lake):
    done = catalog(lake, "alter", "ns1.ns2", "-p", "team=air", "-u", "owner", "--json").json
    assert (done["was"], done["properties"]) == ({"owner": "me"}, {"team": "air"})
    assert "  lead = x" in catalog(lake, "alter", "ns1.ns2.flights", "-p", "lead=x").out
    assert catalog(lake, "alter", "", "-p", "site=nyc").code == 0
    for name, properties in (("ns1.ns2", {"team": "air"}), ("", {"site": "nyc"})):
        assert catalog(lake, "describe", name, "--json").json["properties"] == properties
    assert "a directory has no properties" in catalog(lake, "alter", "trips", "-p", "a=b").error


def test_rename_moves_a_row_or_the_files_as_well(lake):
    done = catalog(lake, "rename", "ns1.ns2.flights", "ns1.planes", "--json").json
    assert (done["files_copied"], done["left_behind"]) == (False, None)
    assert "its files are in a new directory" in catalog(lake, "rename", "trips", "ns1.trips").out
    assert names(lake) == ["ns1", "ns1.declared", "ns1.ns2", "ns1.planes", "ns1.trips"]
    assert (rows(lake, "ns1", "planes"), rows(lake, "ns1", "trips")) == (1, 0)


def test_rm_asks_names_what_goes_and_takes_it(lake):
    place = catalog(lake, "describe", "ns1.ns2.flights", "--json").json["location"]
    refused = catalog(lake, "rm", "ns1", "--cascade")
    assert refused.code == 3
    for told in ("  namespace ns1.ns2\n", f"  table ns1.ns2.flights: {place}\n", "1 namespace and 2 tables"):
        assert told in refused.err
    assert names(lake) == ALL
    done = catalog(lake, "rm", "ns1", "--cascade", "--yes", "--json").json
    assert ([table["name"] for table in done["tables"]], done["namespaces"]) == (
        ["ns1.declared", "ns1.ns2.flights"],
        ["ns1.ns2"],
    )
    assert names(lake) == ["trips"]
    assert not Path(place).exists()
    assert catalog(lake, "rm", "trips", "--yes").code == 0
    assert not (lake / "trips.lance").exists()


def test_rm_spares_what_a_clone_reads_unless_it_is_forced(lake, tmp_path):
    source = locate(str(lake / "trips.lance"))
    shallow_clone(source, pin_latest(source, None), locate(str(tmp_path / "clone.lance")))
    for dry_run in ((), ("--dry-run",)):
        assert "is read by the clone" in catalog(lake, "rm", "trips", "--yes", *dry_run).error
    assert catalog(lake, "rm", "trips", "--yes", "--force").code == 0


@pytest.mark.parametrize("name", ["ns1.ns2.flights", "trips"])
def test_what_deregister_prints_puts_the_table_back(lake, name):
    before = catalog(lake, "describe", name, "--json").json
    line = catalog(lake, "deregister", name).out.splitlines()[1]
    assert name not in names(lake)
    command = shlex.split(line.partition("   puts it back")[0])
    assert call(lake.parent, *command[1:], main=catalog_main).code == 0
    assert {**catalog(lake, "describe", name, "--json").json, "registered": True} == {**before, "registered": True}


def test_migrate_gives_directories_a_row(lake):
    assert "1 table would be registered" in catalog(lake, "migrate", "--dry-run").out
    assert names(lake) == ALL
    assert [table["name"] for table in catalog(lake, "migrate", "--json").json["tables"]] == ["trips"]
    v2 = catalog(lake, "--mode", "v2", "ls", "-r", "--json").json["items"]
    assert [item["name"] for item in v2] == ALL


def test_a_tag_keeps_a_state_of_the_whole_catalog(lake):
    assert catalog(lake, "tag").out == ""
    done = catalog(lake, "tag", "monday")
    assert (done.code, done.out) == (0, "Tag 'monday' was put on the newest version of 2 tables.\n")
    flights = next(lake.glob("*flights"))
    append(flights, None, 11)
    assert catalog(lake, "create", "later", "--table").code == 0
    header, line = catalog(lake, "tag").out.splitlines()
    assert (header.split(), line.split()[:2]) == (["name", "tables", "made"], ["monday", "2"])
    assert catalog(lake, "tag", "monday").code == 11
    assert catalog(lake, "tag", "tuesday", "--json").json["tables"] == 2
    told = catalog(lake, "tag", "--list", "mon*", "--json").json["tags"]
    assert [(tag["name"], tag["tables"], tag["ready"]) for tag in told] == [("monday", 2, True)]
    assert told[0]["created_at"].endswith("+00:00")
    refused = catalog(lake, "rm", "ns1.ns2.flights", "--yes")
    assert (refused.code, "pins 'ns1.ns2.flights'" in refused.error) == (3, True)
    assert catalog(lake, "tag", "-d", "monday").code == 3, "there is no terminal to ask on"
    assert "would be" in catalog(lake, "tag", "-d", "monday", "--dry-run").out
    assert catalog(lake, "tag", "-d", "monday", "--yes").out == "Tag 'monday' of 2 tables was deleted.\n"
    assert [tag["name"] for tag in catalog(lake, "tag", "--json").json["tags"]] == ["tuesday"]
    assert list(lance.dataset(flights).tags.list()) == [f"lake-tuesday-{lake_tag_id(lake)}"]


def lake_tag_id(root):
    (tag,) = list_refs(open_catalog(str(root)), TAG)
    return tag.id


def test_verbs_that_look_show_the_catalog_at_a_tag(lake):
    assert catalog(lake, "tag", "monday").code == 0
    append(next(lake.glob("*flights")), None, 11)
    append(lake / "trips.lance", None, 11)
    assert catalog(lake, "create", "later", "--table").code == 0
    at = catalog(lake, "ls", "-r", "--tag", "monday", "--json").json
    assert (at["tag"], [item["name"] for item in at["items"]]) == ("monday", ALL)
    assert names(lake) == sorted([*ALL, "later"])
    told = catalog(lake, "tree", "--tag", "monday").out
    assert (told.splitlines()[0], "later" in told) == (f"{lake} at tag 'monday'", False)
    versions = [
        catalog(lake, "describe", table, *at, "--json").json["newest"]["version"]
        for table in ("ns1.ns2.flights", "trips")
        for at in ((), ("--tag", "monday"))
    ]
    assert versions == [3, 2, 2, 1]
    text = catalog(lake, "describe", "ns1.ns2.flights", "--tag", "monday").out
    assert text.startswith("table ns1.ns2.flights at tag 'monday'\n")
    assert "  version     2, 1 row, committed " in text
    assert "properties  team = air" in text
    assert "had no data when the tag was created" in catalog(lake, "describe", "ns1.declared", "--tag", "monday").out
    assert catalog(lake, "describe", "later", "--tag", "monday").code == 10


def test_cleanups_pass_over_the_versions_of_a_tag(lake):
    assert catalog(lake, "tag", "monday").code == 0
    flights = LanceTable.for_path(str(next(lake.glob("*flights"))))
    for value in (11, 12):
        append(flights.location.uri, None, value)
    everything = CleanupPolicy(older_than=timedelta(0), commit_window=timedelta(0), undo_window=timedelta(0))
    assert flights.cleanup(everything).apply().executed
    lance.dataset(flights.location.uri).cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    assert [entry["version"] for entry in lance.dataset(flights.location.uri).versions()] == [2, 4]
    assert (flights.tags.list(), len(flights.tags.list(all=True))) == ([], 1)
    (pin,) = flights.tags.list(all=True)
    with pytest.raises(Refused, match="tag or branch 'monday' of the lake pins this version"):
        flights.tags.delete(pin.name)
    assert catalog(lake, "tag", "-d", "monday", "--yes").code == 0
    flights.cleanup(everything).apply()
    assert 2 not in [entry["version"] for entry in lance.dataset(flights.location.uri).versions()]


def test_an_incomplete_tag_is_listed_and_can_only_be_deleted(lake):
    manifest = open_catalog(str(lake)).manifest
    create_branch_at(manifest, "tags/monday", pin_latest(manifest, None))
    assert catalog(lake, "tag").out.splitlines()[1].split()[:2] == ["monday", "incomplete"]
    refused = catalog(lake, "ls", "--tag", "monday")
    assert refused.code == 10
    assert "hint: If no job is at it, delete it: lance-catalog tag -d monday." in refused.error
    assert "which is incomplete, was deleted" in catalog(lake, "tag", "-d", "monday", "--yes").out
    assert catalog(lake, "tag", "monday").code == 0


def test_doctor_finds_mends_and_says_so_with_its_exit_code(lake, monkeypatch):
    assert catalog(lake, "doctor").code == 0
    place = Path(catalog(lake, "describe", "ns1.declared", "--json").json["location"])
    (place / ".lance-reserved").unlink()
    place.rmdir()
    orphan = lake / "0123abcd_ns1$x"
    orphan.mkdir()
    (orphan / "a.lance").write_bytes(b"1")
    monkeypatch.setattr(doctor, "_now", lambda: datetime.now(timezone.utc) + timedelta(days=2))
    found = catalog(lake, "doctor")
    assert found.code == 6
    assert "dead row" in found.out
    assert "orphan directory  0123abcd_ns1$x" in found.out
    assert "1 table without a row" in found.out
    would = catalog(lake, "doctor", "--mend", "--dry-run")
    assert (would.code, "1 finding would be mended." in would.out) == (6, True)
    assert catalog(lake, "doctor", "--mend").code == 3
    assert "ns1.declared" in names(lake)
    mended = catalog(lake, "doctor", "--mend", "--yes")
    assert (mended.code, "1 finding mended." in mended.out) == (6, True)
    assert "ns1.declared" not in names(lake)
    orphan.joinpath("a.lance").unlink()
    orphan.rmdir()
    assert catalog(lake, "doctor").code == 0


CHANGES = [
    ("create", "ns9"),
    ("create", "a.b", "--parents"),
    ("create", "ns1.new", "--table"),
    ("create", "new", "--table"),
    ("alter", "ns1", "-p", "a=b"),
    ("rename", "ns1.ns2.flights", "ns1.planes"),
    ("rename", "trips", "ns1.trips"),
    ("rm", "ns1", "--cascade"),
    ("rm", "trips"),
    ("register", "ns1.trips", "trips.lance"),
    ("deregister", "ns1.ns2.flights"),
    ("migrate",),
    ("tag", "monday"),
]


@pytest.mark.parametrize("change", CHANGES, ids=" ".join)
def test_a_dry_run_says_what_would_happen_and_changes_nothing(shared, change):
    def state():
        return sorted((str(path), path.stat().st_mtime_ns) for path in shared.rglob("*"))

    before = state()
    done = catalog(shared, *change, "--dry-run")
    assert done.code == 0, done.err
    assert "would" in done.out
    assert catalog(shared, *change, "--dry-run", "--json").json["dry_run"] is True
    assert state() == before


WRONG = [
    (("lss",), 2, "'lss' is not a verb of lance-catalog. Did you mean 'ls'?"),
    (("--mode", "v3", "ls"), 2, "Invalid value for '--mode'"),
    (("--storage", "secret-without-a-key", "ls"), 2, "--storage takes KEY=VALUE."),
    (("create", "ns9", "-p", "owner"), 2, "-p takes KEY=VALUE."),
    (("create", "ns9.t", "--table", "--parents"), 2, "--table and --parents cannot be combined."),
    (("create", "ns1..x"), 2, "is not a valid namespace name"),
    (("create", "../evil"), 2, "is not a valid namespace name"),
    (("create", "a$b", "--table"), 2, "it cannot contain '$'"),
    (("create", "ns1"), 11, "a namespace of that name already exists"),
    (("create", "trips"), 11, "a table of that name already exists"),
    (("create", "ns1", "--table"), 11, "a namespace of that name already exists"),
    (("create", "trips", "--table"), 11, "a table of that name already exists"),
    (("create", "no.x"), 10, "there is no namespace 'no'"),
    (("create", "no.x", "--table"), 10, "there is no namespace 'no'"),
    (("--mode", "v1", "create", "ns9"), 3, "a catalog of directories (V1) does not support it"),
    (("alter", "ns1"), 2, "There is nothing to alter."),
    (("alter", "ns1", "-p", "a=b", "-u", "a"), 2, "cannot be both set and removed"),
    (("ls", "no"), 10, "there is no such table or namespace"),
    (("tree", "no"), 10, "there is no such namespace"),
    (("describe", "trip"), 10, "there is no such table or namespace"),
    (("describe", "no.x"), 10, "there is no such table or namespace"),
    (("rename", "no", "other"), 10, "there is no such table"),
    (("rename", "trips", "ns1"), 11, "a namespace of that name already exists"),
    (("rename", "trips", "no.trips"), 10, "there is no namespace 'no'"),
    (("rename", "trips", "trips"), 11, "it already has that name"),
    (("rename", "ns1", "ns2"), 10, "there is no such table"),
    (("rm", "no", "--yes"), 10, "there is no such table or namespace"),
    (("rm", "ns1", "--yes"), 3, "it is not empty"),
    (("rm", "trips", "--cascade", "--yes"), 2, "--cascade is for namespaces"),
    (("rm", ""), 3, "the root cannot be dropped"),
    (("register", "ns1.x", "nowhere"), 10, "there is no table at 'nowhere'"),
    (("register", "ns1.x", "../elsewhere"), 2, "is not a path below the catalog"),
    (("register", "trips", "trips.lance", "-p", "a"), 2, "-p takes KEY=VALUE."),
    (("deregister", "ns1"), 10, "there is no such table"),
    (("--mode", "v1", "migrate"), 2, "A migration to V2"),
    (("doctor", "--dry-run"), 2, "--dry-run needs --mend."),
    (("tag", "a b"), 2, "'a b' is not a valid tag name"),
    (("tag", "monday", "tuesday"), 2, "Too many names to create a tag"),
    (("tag", "-d", "monday"), 10, "There is no tag of the lake 'monday'"),
    (("ls", "--tag", "monday"), 10, "There is no tag of the lake 'monday'"),
    (("rm", "trips", "--tag", "monday"), 2, "No such option"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), WRONG, ids=[" ".join(wrong[0]) for wrong in WRONG])
def test_what_is_wrong_is_said_in_one_line_whether_it_is_tried_or_rehearsed(shared, arguments, code, words):
    before = names(shared)
    done = catalog(shared, *arguments)
    assert done.code == code
    first, *rest = done.error.splitlines()
    assert first.startswith("error: ")
    assert words in first
    assert len(rest) <= 1
    assert "secret-without" not in done.err
    if arguments[0] in ("create", "rename", "rm", "register", "deregister", "tag"):
        again = catalog(shared, *arguments, "--dry-run")
        assert (again.code, again.err) == (code, done.err)
    assert names(shared) == before


def test_an_option_behind_the_verb_is_told_its_place(shared):
    told = catalog(shared, "ls", "--catalog", "lake").error.splitlines()[-1]
    assert told == "hint: --catalog goes before the verb: lance-catalog --catalog ... ls"
    assert catalog(shared, "ls", "--nope").error.splitlines()[-1].endswith("ls --help shows the usage.")


def test_the_nearest_name_is_told(shared):
    assert catalog(shared, "describe", "trip").error.splitlines()[-1] == "hint: Did you mean 'trips'?"
    assert "'ns1.ns2.flights'" in catalog(shared, "describe", "ns1.ns2.fligths").error


def test_the_catalog_comes_from_the_environment_in_a_process_of_its_own(shared, tmp_path):
    done = run(tmp_path, "ls", "-r", script=CATALOG_SCRIPT, LANCE_CATALOG=str(shared), LANCE_CATALOG_MODE="v2")
    assert done.out.splitlines() == ["ns1.", "ns1.declared", "ns1.ns2.", "ns1.ns2.flights"]
    nobody = run(tmp_path, "ls", script=CATALOG_SCRIPT, LANCE_CATALOG="")
    assert (nobody.code, "No catalog was named." in nobody.error) == (2, True)


def test_a_store_that_cannot_be_read_is_not_an_empty_catalog(tmp_path):
    (tmp_path / "lake" / "__manifest" / "_versions").mkdir(parents=True)
    (tmp_path / "lake" / "__manifest" / "_versions" / "1.manifest").write_bytes(b"\0" * 50)
    done = catalog(tmp_path / "lake", "ls")
    assert done.code == 22
    assert done.error.startswith("error: ")


@pytest.mark.parametrize("verb", [("ls",), ("tree",), ("describe", "x"), ("doctor",), ("fsck",), ("du",), ("migrate",)])
def test_a_directory_that_is_not_there_is_no_empty_catalog(tmp_path, verb):
    (tmp_path / "file").touch()
    for root in (tmp_path / "nope", tmp_path / "file"):
        done = catalog(root, *verb)
        assert done.code == 10
        assert f"There is no directory {root}." in done.error
        assert "-C or LANCE_CATALOG" in done.error
    (tmp_path / "nope").mkdir()
    assert "no directory" not in catalog(tmp_path / "nope", *verb).err


def test_the_environment_names_no_directory(tmp_path):
    done = run(tmp_path, "ls", script=CATALOG_SCRIPT, LANCE_CATALOG="/nope")
    assert (done.code, done.err.splitlines()[0]) == (10, "error: There is no directory /nope.")


def test_the_first_table_makes_the_directory(tmp_path):
    assert catalog(tmp_path / "new", "create", "t", "--table").code == 0
    assert catalog(tmp_path / "new", "ls").out == "t\n"
