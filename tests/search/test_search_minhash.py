"""Near duplicates: parts of texts, bands, and keys that alike texts have in common."""

import random

import pytest

from lance_spark.errors import InvalidOption
from lance_spark.search.duplicate_rules import Banding, Shingling, Signer, banding, jaccard, members

pytestmark = pytest.mark.pure

PARTS = [
    (Shingling(), "The late, late Storm!", {"the late late", "late late storm"}),
    (Shingling(), "late storm", {"late storm"}),
    (Shingling(), " ... ", set()),
    (Shingling(), "", set()),
    (Shingling(size=1), "a b a", {"a", "b"}),
    (Shingling("characters", 4), "Ab  cde", {"ab c", "b cd", " cde"}),
    (Shingling("characters", 9), "abc", {"abc"}),
]


def name_of(given):
    """Both workers have to name a case alike, and sets have no order."""
    return "|".join(sorted(given)) if isinstance(given, set) else str(given)


@pytest.mark.parametrize(("shingling", "text", "parts"), PARTS, ids=name_of)
def test_the_parts_of_a_text(shingling, text, parts):
    assert shingling.parts(text) == parts


@pytest.mark.parametrize("given", [("letters", 3), ("words", 0), ("words", True), ("words", "3")])
def test_other_parts_are_refused(given):
    with pytest.raises(InvalidOption):
        Shingling(*given)


@pytest.mark.parametrize("threshold", [0.05, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1, 1.0])
def test_bands_are_long_and_miss_hardly_any_pair(threshold):
    cut = banding(threshold)
    assert cut.bands * cut.rows <= 128
    assert cut.recall(threshold) >= 0.995
    assert Banding(128 // (cut.rows + 1), cut.rows + 1).recall(threshold) < 0.995 or cut.rows == 32
    assert cut.recall(min(1, threshold + 0.05)) >= cut.recall(threshold)


@pytest.mark.parametrize("threshold", [0, -1, 1.01, True, "0.9", float("nan"), 0.01])
def test_thresholds_that_cannot_be_are_refused(threshold):
    with pytest.raises(InvalidOption, match="threshold"):
        banding(threshold)


def test_keys_agree_as_often_as_bands_promise():
    """Pairs of texts with nine parts of ten in common: about as many as computed share a key; strangers share none."""
    rng = random.Random(7)
    cut = Banding(10, 12)
    signer = Signer(Shingling(size=1), cut)
    ours, theirs = [], []
    for pair in range(400):
        words = [f"w{pair}x{number}" for number in range(100)]
        rng.shuffle(words)
        ours.append(" ".join(words[:95]))
        theirs.append(" ".join(words[5:]))
    share = jaccard(signer.shingling.parts(ours[0]), signer.shingling.parts(theirs[0]))
    assert share == 0.9
    _, _, left = signer.keys(ours)
    _, _, right = signer.keys(theirs)
    met = (left == right).any(axis=1).mean()
    assert abs(met - cut.recall(share)) < 0.05
    assert 0.5 < met < 1
    assert not (left[1:] == right[:-1]).any()


def test_keys_are_the_same_everywhere_and_for_the_same_parts():
    signer = Signer(Shingling(), banding(0.9))
    places, digests, keys = signer.keys(["one two three four", None, "", "Two three FOUR", "one, two three. four"])
    assert places == [0, 3, 4]
    assert digests[0] == digests[2] != digests[1]
    assert (keys[0] == keys[2]).all()
    assert (signer.keys(["one two three four"])[2][0] == keys[0]).all()
    assert keys[0][0] == FIRST
    assert signer.keys([])[2].shape == (0, banding(0.9).bands)


FIRST = -3363159145295694774
"""A key of the first text: another one would mean that machines of different releases cannot share keys."""


def test_rows_with_the_same_parts_stand_together():
    assert members([5, 1, 3, 2], [b"x", b"y", b"x", b"y"]) == [[1, 2], [3, 5]]


def test_how_alike():
    assert jaccard({"a", "b", "c"}, {"b", "c", "d"}) == 0.5
    assert jaccard(set(), set()) == 0
