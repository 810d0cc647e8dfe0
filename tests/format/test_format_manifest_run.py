"""A run of versions, decoded from one to the next, tells the same as each version decoded on its own."""

import pickle
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.manifest_bytes import column, data_file, deletion_file, fragment, head, index, manifest_file
from support.manifest_bytes import field as proto

from lance_spark.errors import CorruptData, Refused
from lance_spark.format import contents, manifest
from lance_spark.format.contents import RunDecoder
from lance_spark.format.manifest import BasePath, NamedFile, decode_head, named_files

pytestmark = pytest.mark.pure


@dataclass
class Fragment:
    number: int
    files: list[tuple[str, int | None]]
    deletion: tuple[int, int] | None = None


@dataclass
class Version:
    """One version of a made-up dataset; what it names is told from here, not from its bytes."""

    number: int = 1
    fragments: list[Fragment] = field(default_factory=list)
    behind: int = 0
    """How many of the last fragments stand behind the fields that should follow them."""
    columns: int = 1
    bases: dict[int, BasePath] = field(default_factory=lambda: {0: BasePath("/main", True)})
    indices: list[int] = field(default_factory=list)
    transaction: str | None = None
    next_id: int = 0

    def append(self, count=1, base=None):
        for number in range(self.next_id, self.next_id + count):
            self.fragments.append(Fragment(number, [(f"{number:024b}.lance", base)]))
        self.next_id += count

    def content(self):
        records = [
            fragment(
                each.number,
                [data_file(path, base) for path, base in each.files],
                deletion_file(*each.deletion) if each.deletion else None,
            )
            for each in self.fragments
        ]
        first = len(records) - self.behind
        columns = [column(f"c\x12{number}", number) for number in range(self.columns)]
        fields = [*columns, *records[:first], head(self.number, (0, 0), self.transaction, self.bases), *records[first:]]
        section = b"".join(index(UUID(int=number)) for number in self.indices) if self.indices else None
        return manifest_file(b"".join(fields), section)

    def names(self):
        found = {NamedFile(None, f"_indices/{UUID(int=number)}") for number in self.indices}
        found |= {NamedFile(None, f"_transactions/{self.transaction}")} if self.transaction else set()
        for each in self.fragments:
            if each.deletion:
                found.add(NamedFile(None, f"_deletions/{each.number}-{each.deletion[0]}-{each.deletion[1]}.arrow"))
            for path, base in each.files:
                place = None if base is None else self.bases[base]
                found.add(NamedFile(place, path if place and not place.is_dataset_root else f"data/{path}"))
        return found


def append_one(version, _):
    version.append()


def append_many(version, random):
    version.append(random.randint(2, 40), base=random.choice([None, *version.bases]))


def delete_rows(version, random):
    for each in random.sample(version.fragments, len(version.fragments) // random.randint(1, 10)):
        each.deletion = (version.number, random.randrange(2**64))


def drop_low_fragments(version, random):
    del version.fragments[: random.randint(0, 5)]


def compact(version, random):
    start = random.randint(0, len(version.fragments))
    del version.fragments[start : start + random.randint(1, 20)]
    version.append()


def overwrite(version, random):
    version.fragments.clear()
    version.append(random.randint(0, 3))


def add_column(version, _):
    version.columns += 1
    for each in version.fragments:
        each.files.append((f"{version.number}-{each.number}.lance", None))


def change_schema_only(version, random):
    version.columns = random.randint(0, 30)


def change_bases(version, random):
    place = BasePath(random.choice(["/main", "/other"]), random.random() < 0.5)
    version.bases[random.randint(0, 2)] = place


def change_indices(version, random):
    version.indices = random.sample(range(5), random.randint(0, 5))


def change_transaction(version, random):
    version.transaction = random.choice([None, f"{version.number}.txn"])


def name_a_file_twice(version, random):
    if version.fragments:
        version.append()
        version.fragments[-1].files = list(random.choice(version.fragments).files)


def repeat_a_fragment(version, random):
    if version.fragments:
        version.fragments.append(deepcopy(random.choice(version.fragments)))


def shuffle(version, random):
    random.shuffle(version.fragments)


def put_behind(version, random):
    version.behind = random.randint(0, 3)


def nothing(version, random):
    pass


EDITS = [
    *[append_one, append_many, delete_rows, drop_low_fragments, compact, overwrite, add_column, change_schema_only],
    *[change_bases, change_indices, change_transaction, name_a_file_twice, repeat_a_fragment, shuffle, put_behind],
    nothing,
]
RESTORE = "restore"


def history(edits, random):
    versions = [Version()]
    versions[0].append(3)
    for edit in edits:
        version = deepcopy(random.choice(versions) if edit is RESTORE else versions[-1])
        version.number = versions[-1].number + 1
        if edit is not RESTORE:
            edit(version, random)
        version.behind = min(version.behind, len(version.fragments))
        versions.append(version)
    return versions


@given(st.lists(st.sampled_from([*EDITS, RESTORE]), max_size=12), st.randoms(use_true_random=False))
def test_a_run_tells_the_differences_of_its_versions(edits, random):
    decoder, before = RunDecoder(), set()
    for version in history(edits, random):
        content, now = version.content(), version.names()
        assert named_files(content) == now
        told, added, removed = decoder.feed(content)
        assert told == decode_head(content)
        assert len(added) == len(set(added))
        assert len(removed) == len(set(removed))
        assert (set(added), set(removed)) == (now - before, before - now)
        before = now


@pytest.fixture(scope="module")
def many():
    """A version of 3,000 fragments: pickled, which copies faster than deepcopy, its content and what it names."""
    version = Version()
    version.append(3000)
    return pickle.dumps(version), version.content(), version.names()


@pytest.mark.parametrize("edit", EDITS)
def test_each_edit_is_told_between_two_versions_of_many_fragments(edit, many):
    first, content, named = many
    for seed in range(2):
        second = pickle.loads(first)
        second.number = 2
        edit(second, Random(seed))
        decoder = RunDecoder()
        assert set(decoder.feed(content)[1]) == named
        _, added, removed = decoder.feed(second.content())
        now = second.names()
        assert (set(added), set(removed)) == (now - named, named - now)


@pytest.mark.parametrize(
    ("edit", "most"),
    [
        (append_one, 1),
        (lambda version, _: version.fragments.__delitem__(slice(1000, 1010)), 10),
        (lambda version, _: version.fragments.__delitem__(slice(0, 10)), 10),
        (lambda version, _: setattr(version.fragments[1500], "deletion", (1, 1)), 3),
        (lambda version, _: [setattr(each, "deletion", (1, 1)) for each in version.fragments[::10]], 900),
        (delete_rows, 3000 + 2000),
        (compact, 20),
        (change_schema_only, 0),
        (change_indices, 0),
        (nothing, 0),
    ],
)
def test_only_fragments_that_differ_are_parsed(edit, most, monkeypatch):
    first = Version()
    first.append(3000)
    second = deepcopy(first)
    second.number = 2
    edit(second, Random(7))
    decoder = RunDecoder()
    decoder.feed(first.content())
    parsed = []
    parse = manifest.fragment_files
    monkeypatch.setattr(contents, "fragment_files", lambda *given: parsed.append(parse(*given)) or parsed[-1])
    decoder.feed(second.content())
    assert sum(len(files) for files in parsed) <= most


FIXED = [
    proto(30, 5),
    b"\xf1\x01" + bytes(8),
    b"\xf5\x01" + bytes(4),
    b"\xf3\x01\x12\x00\xf4\x01",
    proto(200, b"\x12" * 200),
]


@pytest.mark.parametrize("strange", FIXED, ids=["varint", "64 bit", "32 bit", "group", "sized"])
def test_unknown_fields_may_stand_anywhere(strange):
    records = [fragment(number, [data_file(f"{number}.lance")]) for number in range(300)]
    expected = {NamedFile(None, f"data/{number}.lance") for number in range(300)}
    decoder, before = RunDecoder(), set()
    for place in (0, 150, 299, 300):
        message = b"".join([*records[:place], strange, *records[place:], head()])
        assert named_files(manifest_file(message)) == expected
        _, added, removed = decoder.feed(manifest_file(message))
        assert (set(added), set(removed)) == (expected - before, set())
        before = expected


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 100_000])
def test_fragments_of_every_size_are_told_apart(size):
    def content(number, *numbers):
        inline_row_ids = proto(5, b"\x12" * size)
        records = [fragment(each, [data_file(f"{each}.lance")], more=inline_row_ids) for each in numbers]
        return manifest_file(b"".join([*records, proto(2, b""), head(number)]))

    decoder = RunDecoder()
    decoder.feed(content(1, 0, 1, 2, 3))
    _, added, removed = decoder.feed(content(2, 0, 2, 3, 300))
    assert set(added) == {NamedFile(None, "data/300.lance")}
    assert set(removed) == {NamedFile(None, "data/1.lance")}


def test_equal_ids_of_bases_that_mean_something_else_are_other_files():
    one, other = Version(), Version(number=2, bases={0: BasePath("/other", True)})
    one.append(2, base=0)
    other.append(2, base=0)
    decoder = RunDecoder()
    decoder.feed(one.content())
    _, added, removed = decoder.feed(other.content())
    assert (set(added), set(removed)) == (other.names(), one.names())


def test_the_order_of_bases_means_nothing():
    places = {1: BasePath("/a", True), 0: BasePath("/b", False)}
    one, other = Version(bases=places), Version(number=2, bases=dict(reversed(places.items())))
    assert one.content() != other.content()
    decoder = RunDecoder()
    decoder.feed(one.content())
    assert decoder.feed(other.content())[1:] == ([], [])


def test_a_version_that_cannot_be_read_does_not_disturb_the_run():
    versions = history([append_many, append_many], Random(1))
    first, damaged, second = (version.content() for version in versions)
    refused = manifest_file(head(2, (512, 0)))
    unknown_base = manifest_file(fragment(0, [data_file("x", base=7)]) + head(2))
    decoder = RunDecoder()
    decoder.feed(first)
    for content, error in ((damaged[:-5], CorruptData), (refused, Refused), (unknown_base, CorruptData)):
        with pytest.raises(error):
            decoder.feed(content)
    _, added, removed = decoder.feed(second)
    before, now = named_files(first), named_files(second)
    assert (set(added), set(removed)) == (now - before, before - now)
