"""Which files go, rule by rule."""

from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest
from support.cleanup_files import (
    BLOB_NAME,
    CHAINS,
    CLONE_CHAIN,
    FILES_OF_ALL,
    OLD,
    ROOTS,
    UUID,
    WEEK_OLD,
    YOUNG,
    below,
    deleted,
    fates,
    judgement,
    listing,
    marks,
    sums,
    to_table,
)
from support.cleanup_surveys import DAY, NOW

from lance_spark.cleanup.reference_rules import MARKS
from lance_spark.cleanup.sweep_rules import DECIDED, FILES, decide, to_files
from lance_spark.core.layout import Roots
from lance_spark.storage.listing import LISTING

pytestmark = pytest.mark.pure

TWO = (False, True)
"""The first version goes, the second stays."""


def decide_on(files, spans=(), *kept, leftovers=(), **more):
    kept = kept or (TWO, TWO, TWO, TWO)
    more.setdefault("whole", False)
    return decide(to_table(files), marks(*spans, leftovers=leftovers), judgement(*kept, **more))


def test_a_file_that_a_kept_version_names_never_goes():
    files = dict.fromkeys(["data/x.lance", "data/y.lance"], OLD)
    decided = decide_on(files, [(0, "data/x.lance", 0, 1), (0, "data/y.lance", 0, 0)], before=None)
    assert deleted(decided) == {"data/y.lance": ("only removed versions name it", True)}
    assert sums(decided) == {("data", 0, "a kept version names it"): 1}


@pytest.mark.parametrize("chain", [1, 2, CLONE_CHAIN])
def test_one_kept_version_of_any_branch_or_clone_is_enough(chain):
    spans = [(0, "data/x.lance", 0, 0), (chain, "data/x.lance", 1, 1), (0, "data/y.lance", 0, 0)]
    decided = decide_on(dict.fromkeys(["data/x.lance", "data/y.lance"], OLD), spans, before=None)
    assert set(deleted(decided)) == {"data/y.lance"}


def test_a_file_between_two_removed_versions_stays_if_one_in_between_is_kept():
    kept = ((False, True, False, True),)
    spans = [(0, "data/x.lance", 0, 2), (0, "data/y.lance", 2, 2)]
    assert set(deleted(decide_on({"data/x.lance": OLD, "data/y.lance": OLD}, spans, *kept))) == {"data/y.lance"}


def test_the_same_name_in_another_branch_is_another_file():
    files = dict.fromkeys(["data/x.lance", "tree/a/data/x.lance", "tree/a/b/data/x.lance"], OLD)
    decided = decide_on(files, [(1, "tree/a/data/x.lance", 1, 1)])
    assert set(deleted(decided)) == {"data/x.lance", "tree/a/b/data/x.lance"}


def test_a_file_named_in_an_unknown_base_stays_in_every_branch_with_its_blobs():
    names = ("data/x.lance", f"data/x/{BLOB_NAME}", "data/y.lance")
    files = {below(root, name): OLD for root in ROOTS for name in names}
    decided = decide_on(files, [(2, "*/data/x.lance", 1, 1)], before=None)
    assert set(deleted(decided)) == {below(root, "data/y.lance") for root in ROOTS}


def test_what_only_removed_versions_name_in_an_unknown_base_is_no_proof():
    decided = decide_on({"data/x.lance": YOUNG}, [(1, "*/data/x.lance", 0, 0)])
    assert deleted(decided) == {}
    assert sums(decided) == {("data", 0, "no version names it, but it is too young"): 1}


def test_a_file_without_a_proof_goes_at_the_unverified_age_and_one_with_a_proof_at_once():
    files = {"data/x.lance": WEEK_OLD - 1000, "data/y.lance": WEEK_OLD, "data/.tmp1": YOUNG}
    assert deleted(decide_on(files)) == {"data/x.lance": ("no version names it", False)}
    proof = [(0, "data/y.lance", 0, 0)]
    assert deleted(decide_on(files, proof))["data/y.lance"] == ("only removed versions name it", True)
    assert set(deleted(decide_on(files, before=None))) == set(files)


def test_what_changed_after_the_mark_began_stays_also_with_a_proof():
    files = {"data/x.lance": NOW, "data/y.lance": NOW + DAY, "_versions/1.manifest": NOW, "data/.tmp1": NOW - 1000}
    spans = [(0, "data/x.lance", 0, 0), (0, "data/y.lance", 0, 0)]
    decided = decide_on(files, spans, removed=["_versions/1.manifest"], before=None)
    assert set(deleted(decided)) == {"data/.tmp1"}
    assert sums(decided)["data", 0, "changed after the mark began"] == 2


def test_a_file_whose_time_the_store_does_not_tell_stays():
    files = dict.fromkeys(["data/x.lance", "_versions/1.manifest"])
    spans = [(0, "data/x.lance", 0, 0)]
    assert deleted(decide_on(files, spans, removed=["_versions/1.manifest"], before=None)) == {}


def test_unknown_kinds_stay_and_are_named_one_by_one():
    files = dict.fromkeys(["data/", "data/x.parquet", "tree/gone/data/x.lance", "tree/a/notes", "x.lance"], OLD)
    decided = decide_on(files, before=None)
    assert fates(decided) == dict.fromkeys(files, ("keep", "unknown kind of file", False))
    assert sums(decided) == {("unknown", 0, "unknown kind of file"): 4, ("unknown", 1, "unknown kind of file"): 1}


def test_what_a_run_that_never_ended_left_goes_when_it_is_old_enough():
    files = {"_cleanup/p/candidates.parquet": OLD, "_cleanup/q/candidates.parquet": NOW - 1}
    assert list(deleted(decide_on(files))) == ["_cleanup/p/candidates.parquet"]


@pytest.mark.parametrize(
    ("sinks", "stay"), [({}, []), ({1: 6}, [2, 3]), ({0: 6}, [0]), ({0: 1, 1: 7}, [0, 3]), ({0: 7}, [])]
)
def test_what_is_noted_for_a_stream_stays_as_long_as_the_stream_may_read_it(sinks, stay):
    names = [("", 7), ("", 1), ("tree/a", 7), ("tree/a", 8), ("tree/a/b", 9)]
    notes = [below(root, f"_streams/{last}-{'0' * 32}.json") for root, last in names]
    decided = decide_on(dict.fromkeys(notes, OLD), before=None, sinks=sinks)
    assert set(deleted(decided)) == {*notes} - {notes[number] for number in stay}
    assert not any("no version names" in reason for _, _, reason in sums(decided))
    assert deleted(decide_on(dict.fromkeys(notes, YOUNG))) == {}


@pytest.mark.parametrize(("bases", "stay"), [({}, 4), ({0: 6, 1: 6}, 4), ({0: 7}, 3), ({0: 9, 1: 8}, 1), ({1: 7}, 3)])
def test_what_is_recorded_for_merges_stays_as_long_as_one_may_compare_with_what_was_before(bases, stay):
    spans = [("", "2-7"), ("tree/a", "3-7"), ("tree/a", "3-8")]
    records = [below(root, f"_brought/{span}-{'a' * 16}-{'1' * 32}.columns.json") for root, span in spans]
    records.append(below("", f"_brought/7-7-{'a' * 16}-{'1' * 32}.json"))
    died = {f"{path}.{'2' * 32}.tmp" for path in records}
    assert {*deleted(decide_on(dict.fromkeys(died, OLD)))} == died
    assert deleted(decide_on(dict.fromkeys(died, NOW - 1))) == {}
    decided = decide_on(dict.fromkeys(records, OLD), before=None, bases=bases)
    assert len(records) - len(deleted(decided)) == stay
    assert records[-1] not in deleted(decided)


def test_bookkeeping_stays_whatever_its_age():
    files = dict.fromkeys(["_refs/tags/t.json", "_clones/c.json", "_versions/latest_version_hint.json"], OLD)
    assert deleted(decide_on(files, before=None)) == {}


def test_blobs_follow_their_data_file():
    blobs = [f"data/x/{BLOB_NAME}", f"data/x/{BLOB_NAME[::-1][5:]}.blob", f"data/y/{BLOB_NAME}"]
    decided = decide_on(dict.fromkeys(blobs, YOUNG), [(0, "data/x.lance", 1, 1), (0, "data/y.lance", 0, 0)])
    assert deleted(decided) == {blobs[2]: ("only removed versions name it", True)}


def test_a_data_file_in_a_subdirectory_stays_whichever_way_its_slash_is_stored():
    for path in ("data/2024/x.lance", "data/2024%2Fx.lance"):
        decided = decide_on({path: OLD}, [(0, "data/2024%2Fx.lance", 1, 1)], before=None, whole=True)
        assert fates(decided) == {}


def test_files_of_an_index_follow_the_index():
    other = f"_indices/{UUID[:-1]}c"
    files = dict.fromkeys([f"_indices/{UUID}/a.idx", f"_indices/{UUID}/part/b.idx", f"{other}/a.idx"], YOUNG)
    decided = decide_on(files, [(0, f"_indices/{UUID}", 0, 1), (0, other, 0, 0)], before=None)
    assert deleted(decided) == {f"{other}/a.idx": ("only removed versions name it", True)}


def test_only_manifests_of_removed_versions_go():
    files = dict.fromkeys(["_versions/1.manifest", "_versions/2.manifest", "tree/a/_versions/1.manifest"], OLD)
    decided = decide_on(files, removed=["_versions/1.manifest"], before=None)
    assert deleted(decided) == {"_versions/1.manifest": ("old version", True)}


def test_what_an_unfinished_run_proved_is_a_proof_but_no_reason_against_a_kept_version():
    files = dict.fromkeys(["data/x.lance", "data/y.lance"], YOUNG)
    decided = decide_on(files, [(0, "data/x.lance", 1, 1)], leftovers=["data/x.lance", "data/y.lance"])
    assert deleted(decided) == {"data/y.lance": ("only removed versions name it", True)}


def missing(decided):
    return {path for path, fate in fates(decided).items() if fate[0] == "missing"}


def test_files_of_a_latest_version_that_are_not_listed_are_found():
    spans = [
        (0, "data/x.lance", 0, 1),
        (1, "data/y.lance", 1, 1),
        (1, "tree/a/_deletions/0-1-2.arrow", 1, 1),
        (2, "tree/a/b/data/x.lance", 0, 0),
        (2, "*/data/y.lance", 1, 1),
        (CLONE_CHAIN, "data/z.lance", 1, 1),
    ]
    lost = {"data/x.lance", "data/y.lance", "tree/a/_deletions/0-1-2.arrow"}
    assert missing(decide_on({"_versions/2.manifest": OLD}, spans, whole=True)) == lost
    assert missing(decide_on({}, spans, whole=True)) == lost
    assert missing(decide_on(dict.fromkeys(lost, OLD), spans, whole=True)) == set()
    assert missing(decide_on({}, spans, whole=False)) == set()


def test_a_data_file_is_missing_also_where_its_blobs_are_listed():
    decided = decide_on({f"data/x/{BLOB_NAME}": OLD}, [(0, "data/x.lance", 1, 1)], whole=True)
    assert missing(decided) == {"data/x.lance"}


def test_without_files_or_marks_there_is_nothing_to_decide():
    empty = decide(FILES.empty_table(), MARKS.empty_table(), judgement(TWO))
    assert (empty.num_rows, empty.schema) == (0, DECIDED)
    assert decide(to_table({"data/x.lance": YOUNG}), MARKS.empty_table(), judgement(TWO)).num_rows == 1


def test_no_age_is_too_long_for_the_integers_of_arrow():
    assert deleted(decide_on({"data/x.lance": OLD}, before=0)) == {}


def test_a_listing_becomes_files_with_their_branch_and_the_name_versions_know_them_by():
    batch = to_files(listing(dict.fromkeys(FILES_OF_ALL, OLD)), Roots(ROOTS), CHAINS)
    assert batch.schema.equals(FILES)
    rows = {row["path"]: (row["kind"], row["key"], row["local"], row["chain"]) for row in batch.to_pylist()}
    assert rows == FILES_OF_ALL
    assert set(batch["modified_ns"].to_pylist()) == {OLD}


def test_times_are_nanoseconds_and_sizes_that_are_not_known_count_as_nothing():
    time = datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=7)
    batch = pa.record_batch([["data/x.lance"], pa.array([None], pa.int64()), pa.array([time])], names=LISTING.names)
    (row,) = to_files(batch.cast(LISTING), Roots(ROOTS), CHAINS).to_pylist()
    assert (row["modified_ns"], row["size"]) == (int(time.timestamp()) * 10**9 + 7000, 0)


def test_an_empty_listing_becomes_no_files():
    assert to_files(listing({}), Roots(ROOTS), CHAINS).num_rows == 0
