"""Eight processes at once on one catalog: exactly one winner, the winner's data, no duplicates, nothing left behind."""

import os
import shutil
from dataclasses import replace

import lance
import pytest
from lance.namespace import DirectoryNamespace
from lance_namespace import CreateNamespaceRequest, DeclareTableRequest
from support.catalog_work import assert_sound, attempt, create, value_of, wander
from support.catalogs import PYLANCE, namespaces, raw, tables
from support.kinds import NIGHT
from support.processes import Job, Team

from lance_spark.catalog import manifest_commits, removing
from lance_spark.catalog import tables as tables_of_catalog
from lance_spark.catalog.entry_rules import RemoveTable
from lance_spark.catalog.lookup import create_namespace, describe_table, open_catalog, table_exists
from lance_spark.catalog.marks import hide
from lance_spark.catalog.removing import drop_table
from lance_spark.catalog.tables import declare_table
from lance_spark.errors import AlreadyExists, Conflict, NotFound

pytestmark = pytest.mark.slow

TEAM = 8
ROUNDS = 20 if NIGHT else 4
MODES = ("v2", "compatibility", "v1")


@pytest.fixture(scope="module")
def team():
    with Team(TEAM) as made:
        yield made


@pytest.fixture(params=MODES)
def catalog(request, tmp_path):
    return open_catalog(str(tmp_path), mode=request.param)


def race(team, catalog, what, *each):
    """The outcomes of one operation, by what each process was given."""
    return team.run([Job(attempt, (catalog, what, *given)) for given in each])


def winners(outcomes, *losing):
    """What came of it for those who won; the others failed as they may."""
    kinds = {kind for kind, _ in outcomes}
    assert kinds <= {"ok", *losing}, outcomes
    return [result for kind, result in outcomes if kind == "ok"]


def test_one_creates_a_table_and_its_data_is_there_and_one_drops_it(team, catalog):
    for round_ in range(ROUNDS):
        values = [10 * round_ + member for member in range(TEAM)]
        won = winners(race(team, catalog, "create", *(("t", value) for value in values)), "AlreadyExists")
        assert len(won) == 1
        assert value_of(catalog, "t") == won[0]
        assert len(winners(race(team, catalog, "drop", *[("t",)] * TEAM), "NotFound")) == 1
        assert not table_exists(catalog, "t")
    assert set(os.listdir(catalog.uri)) <= {"__manifest"}


def test_one_renames_a_table_whichever_name_it_is_to_have(team, tmp_path):
    for mode in ("v2", "compatibility"):
        catalog = open_catalog(str(tmp_path / mode), mode=mode)
        for round_ in range(ROUNDS // 2):
            create(catalog, "t", round_)
            outcomes = race(team, catalog, "rename", *(("t", f"u{member}") for member in range(TEAM)))
            (name,) = winners(outcomes, "NotFound")
            assert tables(catalog) == [name]
            assert value_of(catalog, name) == round_
            outcomes = race(team, catalog, "rename", *((name, "same") for _ in range(TEAM)))
            assert len(winners(outcomes, "NotFound", "AlreadyExists")) == 1
            race(team, catalog, "drop", ("same",))
        assert assert_sound(catalog) == {}


def test_all_win_that_want_different_names(team, catalog):
    for round_ in range(3):
        outcomes = race(team, catalog, "create", *((f"t{round_}{member}", member) for member in range(TEAM)))
        assert winners(outcomes) == list(range(TEAM))
    assert assert_sound(catalog) == {f"t{round_}{member}": member for round_ in range(3) for member in range(TEAM)}


def test_one_deregisters_and_one_registers(team, catalog):
    create(catalog, "t", 7)
    path = describe_table(catalog, "t").path
    for _ in range(ROUNDS // 2):
        assert winners(race(team, catalog, "deregister", *[("t",)] * TEAM), "NotFound") == [path]
        won = winners(race(team, catalog, "register", *[("t", path)] * TEAM), "AlreadyExists")
        assert won == [path] if catalog.reads_manifest else won
        assert value_of(catalog, "t") == 7
    assert assert_sound(catalog) == {"t": 7}


def test_the_first_ones_make_the_manifest_together(team, tmp_path):
    for round_ in range(ROUNDS // 2):
        catalog = open_catalog(str(tmp_path / str(round_)), mode="v2")
        outcomes = race(team, catalog, "create_namespace", *((f"n{member % 4}",) for member in range(TEAM)))
        assert len(winners(outcomes, "AlreadyExists")) == 4
        assert namespaces(catalog) == ["n0", "n1", "n2", "n3"]


def test_nothing_is_put_into_a_namespace_that_is_dropped(team, tmp_path):
    """pylance's namespace left an orphan in 20 of 20 rounds: it checks the parent before the commit, not with it."""
    catalog = open_catalog(str(tmp_path), mode="v2")
    for _ in range(ROUNDS // 2):
        create_namespace(catalog, "ns")
        jobs = [Job(attempt, (catalog, "create", f"ns.t{member}", member)) for member in range(4)]
        jobs += [Job(attempt, (catalog, "drop_namespace", "ns", cascade)) for cascade in (False, True, False, True)]
        outcomes = team.run(jobs)
        assert len(winners(outcomes[4:], "NotFound", "Refused")) == 1
        winners(outcomes[:4], "NotFound", "Conflict", "StorageFailure", "CorruptData")
        assert tables(catalog, recursive=True) == namespaces(catalog) == []
    assert raw(catalog).count_rows() == 0


def test_a_name_is_a_table_or_a_namespace(team, catalog):
    if not catalog.reads_manifest:
        pytest.skip("V1 has no namespaces")
    for round_ in range(ROUNDS // 2):
        jobs = [Job(attempt, (catalog, "create", f"x{round_}", member)) for member in range(4)]
        jobs += [Job(attempt, (catalog, "create_namespace", f"x{round_}")) for _ in range(4)]
        assert len(winners(team.run(jobs), "AlreadyExists")) == 1
    assert len(tables(catalog)) + len(namespaces(catalog)) == ROUNDS // 2
    assert_sound(catalog)


@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_whatever_they_do_the_catalog_stays_sound(team, tmp_path, mode):
    catalog = open_catalog(str(tmp_path), mode=mode)
    create_namespace(catalog, "ns")
    names = ["a", "b", "ns.a", "ns.b"]
    for seed in range(ROUNDS if mode == "compatibility" else ROUNDS // 4):
        histories = team.run([Job(wander, (catalog, names, member, seed, 4)) for member in range(TEAM)])
        outcomes = [outcome for history in histories for outcome in history]
        wrong = [found for found in outcomes if found[1][0] not in ("ok", "NotFound", "AlreadyExists", "Conflict")]
        assert [found for found in wrong if not found[0].startswith(("create", "rename"))] == []
        made = {given for given, (kind, _) in outcomes if kind == "ok" and given.startswith("create")}
        for name, value in assert_sound(catalog).items():
            seen = [given for given in made if given.endswith(f", {value})")]
            assert seen or value < 1000 * seed, (name, value)


def theirs(catalog, *_):
    return DirectoryNamespace(root=catalog.uri, **PYLANCE["v2"])


def pylance_creates(namespace, _, member, round_):
    """Beside us, pylance's own namespace makes a namespace and a table in it."""
    namespace.create_namespace(CreateNamespaceRequest(id=[f"p{round_}{member}"]))
    namespace.declare_table(DeclareTableRequest(id=[f"p{round_}{member}", "t"]))


def we_create(_, catalog, member, round_):
    create_namespace(catalog, f"w{round_}{member}")
    attempt(catalog, "withdraw", f"w{round_}{member}.gone")
    return attempt(catalog, "create", f"w{round_}{member}.t", member)


def test_beside_pylances_own_namespace_nothing_is_lost(team, tmp_path):
    catalog = open_catalog(str(tmp_path), mode="v2")
    # pylance's very first write is not atomic: it replaces a table that somebody else has just made.
    create_namespace(catalog, "first")
    for round_ in range(4):
        jobs = [Job(we_create, (catalog, member, round_), theirs) for member in range(4)]
        jobs += [Job(pylance_creates, (catalog, member, round_), theirs) for member in range(4)]
        outcomes = team.run(jobs)
        assert [kind for kind, _ in outcomes[:4]] == ["ok"] * 4, outcomes[:4]
    expected = [f"{who}{round_}{member}" for who in "pw" for round_ in range(4) for member in range(4)]
    assert namespaces(catalog) == ["first", *sorted(expected)]
    assert tables(catalog, recursive=True) == [f"{name}.t" for name in sorted(expected)]
    assert lance.dataset(catalog.manifest.uri).count_rows() == 2 * len(expected) + 1


def test_a_creation_that_loses_leaves_the_mark_of_the_process_that_drops_it(tmp_path, monkeypatch):
    """Without the mark, a third process creates the table again, and the drop deletes that one's files."""
    catalog = open_catalog(str(tmp_path), mode="compatibility")
    check, seen = tables_of_catalog._check_still_mine, []

    def dropped_in_between(catalog, declaration, change):
        hidden = hide(catalog, declaration.path, "drop")
        manifest_commits.apply(catalog.manifest, RemoveTable(declaration.identifier, declaration.path))
        seen.append(hidden)
        check(catalog, declaration, change)

    monkeypatch.setattr(tables_of_catalog, "_check_still_mine", dropped_in_between)
    with pytest.raises(Conflict, match="another process dropped it"):
        declare_table(catalog, "a")
    seen[0].check("drop table 'a'")
    with pytest.raises(AlreadyExists, match="is being dropped"):
        declare_table(catalog, "a")


@pytest.mark.parametrize(
    ("mode", "module", "step"), [("compatibility", manifest_commits, "apply"), ("v1", removing, "look_again")]
)
def test_a_drop_never_deletes_a_table_that_was_created_after_it_removed_the_row(
    tmp_path, monkeypatch, mode, module, step
):
    catalog = open_catalog(str(tmp_path), mode="compatibility")
    create_namespace(catalog, "ns")
    first = declare_table(replace(catalog, mode=mode), "a")
    real = getattr(module, step)

    def created_in_between(*given):
        done = real(*given)
        monkeypatch.undo()
        shutil.rmtree(first.location.uri)  # as a process does whose creation failed
        create(catalog, "a", 7)
        return done

    monkeypatch.setattr(module, step, created_in_between)
    if mode == "v1":
        with pytest.raises(NotFound, match="another process dropped"):
            drop_table(catalog, "a")
    else:
        drop_table(catalog, "a")
    assert assert_sound(catalog) == {"a": 7}
