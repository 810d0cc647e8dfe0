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

    In any other order the results are as right, only slower. Keeps the last manifest and its files' names in memory.
    """

    def __init__(self) -> None:
        self._run: FragmentRun = NO_FRAGMENTS
        self._bases: Mapping[int, BasePath] = {}
        self._others: list[NamedFile] = []
        self._times_named: Counter[NamedFile] = Counter()

    def feed(self, content: bytes) -> tuple[ManifestHead, Collection[NamedFile], Collection[NamedFile]]:
        """The head of the next version, the files that it names and the one before did not, and the other way round.

        Of the first version all files are new. Raises CorruptData and Refused like ``named_files``; the decoder is
        then as it was before.
        """
        span = manifest_span(content)
        change = compare(self._run, content, span)
        # Should there be fragments behind the first run of them, they are told apart from it by being "others".
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
        """Begin anew with these files. Tells which were not named before, and which no longer are."""
        before, self._times_named = self._times_named, Counter(files)
        return self._times_named.keys() - before.keys(), before.keys() - self._times_named.keys()

    def _apply(self, difference: Mapping[NamedFile, int]) -> tuple[Collection[NamedFile], Collection[NamedFile]]:
        """Count how often files are named now. Tells which were not named before, and which no longer are.

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
