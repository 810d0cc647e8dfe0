"""Decodes neighbouring versions one after the other, each at the cost of what differs from the one before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from lance_spark.manifest.decode import head_and_others
from lance_spark.manifest.file_paths import fragment_files
from lance_spark.manifest.fragments import NO_FRAGMENTS, FragmentRun, compare
from lance_spark.manifest.framing import manifest_span
from lance_spark.manifest.model import BasePath, ManifestHead, NamedFile


class RunDecoder:
    """Decodes a run of versions of one chain, in ascending order.

    Any other order gives the same results, only slower. Keeps the last manifest and the names of its files in memory.
    """

    def __init__(self) -> None:
        self._run: FragmentRun = NO_FRAGMENTS
        self._bases: Mapping[int, BasePath] = {}
        self._others: list[NamedFile] = []
        self._times_named: Counter[NamedFile] = Counter()

    def feed(self, content: bytes) -> tuple[ManifestHead, Collection[NamedFile], Collection[NamedFile]]:
        """The head of the next version, the files that only it names, and those that only the version before names.

        Of the first version all files are new. Raises CorruptData and Refused like ``named_files``; the decoder is
        then as it was before.
        """
        span = manifest_span(content)
        change = compare(self._run, content, span)
        # Fragments after the first run of fragments, if there are any, are in "others".
        rest = content[span.start : change.run.start] + content[change.run.end : span.end]
        head, others = head_and_others(content, span, rest)
        others += fragment_files(rest, head.bases)
        if head.bases != self._bases or change.is_large:
            added, removed = self._replace(others + fragment_files(change.run.records(), head.bases))
        else:
            difference = Counter(others + fragment_files(change.added, head.bases))
            difference.subtract(self._others + fragment_files(change.removed, self._bases))
            added, removed = self._apply(difference)
        self._run, self._bases, self._others = change.run, head.bases, others
        return head, added, removed

    def _replace(self, files: list[NamedFile]) -> tuple[Collection[NamedFile], Collection[NamedFile]]:
        """Begin again with these files. Returns those that were not named before, and those that no longer are."""
        before, self._times_named = self._times_named, Counter(files)
        return self._times_named.keys() - before.keys(), before.keys() - self._times_named.keys()

    def _apply(self, difference: Mapping[NamedFile, int]) -> tuple[Collection[NamedFile], Collection[NamedFile]]:
        """Count how often files are named now. Returns those that were not named before, and those no longer named.

        Two fragments may name one file, and it is in use until neither does.
        """
        added, removed = [], []
        for file, change in difference.items():
            if not change:
                continue
            before = self._times_named.get(file, 0)
            self._times_named[file] = before + change
            if not before:
                added.append(file)
            elif not before + change:
                removed.append(file)
                del self._times_named[file]
        return added, removed
