"""Words of git's that the verbs of remotes take, or answer."""

import pytest

from lance_spark.cli.git_options import WORDS_OF_REMOTES, pushed_ref
from lance_spark.cli.verbs.remote import remotes
from lance_spark.core.irreversible import proposable
from lance_spark.errors import InvalidOption

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("typed", "ref"),
    [
        ((), None),
        (("HEAD",), None),
        (("main",), "main"),
        (("v1",), "v1"),
        (("tags/v1",), "tags/v1"),
        (("tag", "v1"), "tags/v1"),
        (("tag", "tags/v1"), "tags/v1"),
        (("main:main",), "main"),
    ],
)
def test_a_push_takes_the_words_of_git(typed, ref):
    assert pushed_ref(typed, "origin") == ref


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        (("main", "exp"), "lance-git push origin main, then lance-git push origin exp."),
        (("main:other",), "lance-git push origin main, or lance-git branch other main and push that."),
        ((":v1",), "lance-git -C URI branch -d v1, or tag -d v1, with the URI of origin."),
        (("+main",), "lance-git pull --reset"),
    ],
)
def test_a_push_that_would_move_or_delete_is_told_what_to_type(typed, hint):
    with pytest.raises(InvalidOption) as refused:
        pushed_ref(typed, "origin")
    assert hint in refused.value.hint


def test_no_word_about_remotes_leads_to_one_that_forgets_a_remote():
    """`rename` is near `remove`, which takes the branches of the remote with it."""
    assert remotes.words is WORDS_OF_REMOTES
    assert WORDS_OF_REMOTES.keys().isdisjoint(remotes.commands)
    assert {"remove", "rm"}.isdisjoint(proposable(remotes.commands))
