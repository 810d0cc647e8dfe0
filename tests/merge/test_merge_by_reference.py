"""A merge by reference is told and done in the same words, although a version of its own comes first."""

from support.merge_datasets import add, error_of, forked, head, ids, run


def test_into_a_branch_that_did_not_move_it_is_a_fast_forward_as_its_dry_run_says(tmp_path):
    uri = forked(str(tmp_path / "t.lance"))
    add(uri, 40, 42, "exp")
    told = run(uri, ff_only=True, reference=True, dry_run=True)
    done = run(uri, ff_only=True, reference=True)
    assert (told.fast_forward, done.fast_forward) == (True, True)
    assert told.summary == done.summary
    assert ids(head(uri)) == [*range(30), 40, 41]
    add(uri, 50, 51)
    add(uri, 60, 61, "exp")
    assert "not a fast-forward" in str(error_of(uri, ff_only=True, reference=True))
