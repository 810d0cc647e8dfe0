"""Whether a survey shows all that refs and names promise: a cleanup cannot protect what it does not see. Pure.

Taking a survey takes time, in which branches come and go. So one survey that contradicts itself proves little. What two
surveys in a row show in the same way is true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, field

from lance_spark.cleanup.survey import Chain, Survey, VersionFile, join
from lance_spark.errors import CorruptData
from lance_spark.refs.names import MAIN


@dataclass(frozen=True)
class Contradiction:
    """Something that one file promises and that is missing in another place."""

    about: Hashable
    """What distinguishes it from a similar one, such as that of a later branch of the same name."""
    message: str = field(compare=False)
    hint: str = field(compare=False)

    def error(self) -> CorruptData:
        """As the error that stops a run."""
        return CorruptData(self.message, hint=f"Nothing was deleted. {self.hint}")


@dataclass(frozen=True)
class Manifest:
    """A manifest of a repository. If it is written again in the same place, it is another manifest."""

    repository: str
    """URI of the dataset or clone."""
    root: str
    """Of its chain, relative to the repository."""
    file: VersionFile

    @property
    def path(self) -> str:
        """Path relative to the repository."""
        return join(self.root, f"_versions/{self.file.name}")


def manifest_at(survey: Survey, chain: Chain, position: int) -> Manifest:
    """A manifest of a chain by its position."""
    return Manifest(survey.repositories[chain.repository].uri, chain.root, chain.files[position])


def still_listed(survey: Survey, manifests: Collection[Manifest]) -> list[Manifest]:
    """Those of the manifests that a later survey shows as well."""
    listed = _manifests(survey)
    return [manifest for manifest in manifests if manifest in listed]


def of_branches(survey: Survey, manifests: Collection[Manifest]) -> list[Manifest]:
    """Those of the manifests that a later survey shows as well, except for branches that are being deleted.

    The ref of such a branch goes first, then its files in any order.
    """
    chains = ((survey.repositories[chain.repository].uri, chain) for chain in survey.chains if chain.has_ref)
    refs = {(uri, chain.root) for uri, chain in chains}
    return [each for each in still_listed(survey, manifests) if (each.repository, each.root) in refs]


def still_newest(survey: Survey, manifests: Collection[Manifest]) -> list[Manifest]:
    """Those of the manifests that a later survey shows as the newest of their branch."""
    newest = {manifest_at(survey, chain, len(chain.versions) - 1) for chain in survey.chains if chain.versions}
    return [manifest for manifest in manifests if manifest in newest]


def not_explained(before: Survey, after: Survey, gone: Collection[Manifest]) -> list[Manifest]:
    """Unreadable manifests that a later survey shows, or that were newer than all that is left of their branch.

    A branch is deleted whole, its ref first, and no cleanup takes the newest version.
    """
    newest = {
        (after.repositories[chain.repository].uri, chain.root): chain.versions[-1].version if chain.versions else 0
        for chain in after.chains
        if chain.has_ref
    }
    left = {(each.repository, each.root) for each in _manifests(before) & _manifests(after)} & newest.keys()
    detached = {manifest_at(before, chain, at) for chain in before.chains for at in _detached(chain)}
    return still_listed(after, gone) + [
        each
        for each in gone
        if (each.repository, each.root) in left
        and each not in detached
        and each.file.version > newest[each.repository, each.root]
    ]


def _manifests(survey: Survey) -> set[Manifest]:
    return {manifest_at(survey, chain, at) for chain in survey.chains for at in range(len(chain.files))}


def _detached(chain: Chain) -> range:
    return range(len(chain.versions), len(chain.files))


def contradictions(survey: Survey) -> list[Contradiction]:
    """Everything that does not fit together.

    That is a dataset or a branch without versions, also in clones; versions that exist twice; versions that were noted
    down and are missing; and tags whose version is missing.
    """
    return [*_without_versions(survey), *_ends_too_early(survey), *_twice(survey), *_dangling_tags(survey)]


def _without_versions(survey: Survey) -> Iterator[Contradiction]:
    chains = {chain.branch: chain for _, chain in survey.owned() if chain.has_ref}
    if None not in chains or not chains[None].versions:
        yield Contradiction(
            "main",
            f"The listing of {survey.location.uri}/_versions shows no version.",
            "Check the path and what the credentials may list.",
        )
    # By its ref: a later branch of the same name is another one.
    refs = {branch.name: (branch.identity, branch.created_at) for branch in survey.refs.branches.values()}
    lost = [(survey.location.uri, name) for name in refs if name not in chains or not chains[name].versions]
    lost += [
        (survey.repositories[chain.repository].uri, chain.name)
        for chain in survey.chains
        if chain.repository and chain.has_ref and not chain.versions
    ]
    for uri, name in lost:
        yield Contradiction(
            ("branch", uri, name, refs.get(name) if uri == survey.location.uri else None),
            f"Branch '{name}' of {uri} has a ref but its directory shows no versions.",
            "Delete the branch if it is lost, or restore its directory.",
        )


def _ends_too_early(survey: Survey) -> Iterator[Contradiction]:
    for chain in survey.chains:
        newest = chain.versions[-1].version if chain.versions else 0
        if chain.noted > newest:
            uri = survey.repositories[chain.repository].uri
            yield Contradiction(
                ("noted", uri, chain.root, newest, chain.noted),
                f"The listing of {uri}/{join(chain.root, '_versions')} ends with version {newest}, but version "
                f"{chain.noted} was written.",
                "Check the file system, and restore the missing manifests.",
            )


def _twice(survey: Survey) -> Iterator[Contradiction]:
    for _, chain in survey.owned():
        counts = Counter(manifest.version for manifest in chain.versions)
        twice = frozenset(version for version, count in counts.items() if count > 1)
        if twice:
            yield Contradiction(
                ("twice", chain.root, twice),
                f"A version of '{chain.name}' has two manifests: their names are being changed to the newer scheme.",
                "Let the migration of manifest names end first.",
            )


def _dangling_tags(survey: Survey) -> Iterator[Contradiction]:
    versions = {
        chain.branch: {manifest.version for manifest in chain.versions} for _, chain in survey.owned() if chain.has_ref
    }
    for tag in survey.refs.tags.values():
        if tag.version not in versions.get(tag.branch, ()):
            yield Contradiction(
                ("tag", tag.name, tag.branch, tag.version),
                f"Tag '{tag.name}' names version {tag.branch or MAIN}@{tag.version}, which is not there.",
                "Delete the tag if the version is lost.",
            )
