"""The files of publishes, below ``__manifest/_lake/publishes``: each is created once, whole, and never changed."""

from __future__ import annotations

import os
from contextlib import suppress
from uuid import uuid4

from lance_spark.catalog.directories import put_new
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import CorruptData
from lance_spark.lake import rules
from lance_spark.storage import files
from lance_spark.storage.small_files import write_below

DIRECTORY = "_lake/publishes"


def sequences(manifest: DatasetLocation) -> list[int]:
    """The sequence numbers of all publishes, newest first. One listing."""
    numbers = map(rules.sequence_of, files.list_names(manifest, DIRECTORY))
    return sorted((number for number in numbers if number is not None), reverse=True)


def read_journal(manifest: DatasetLocation, sequence: int) -> rules.Journal:
    """The journal of a publish. Raises CorruptData."""
    name = rules.journal_name(sequence)
    content = files.read(manifest, f"{DIRECTORY}/{name}")
    if content is None:
        raise CorruptData(f"The file {name} of a publish was listed, but cannot be found.")
    return rules.decode_journal(content, name)


def read_verdict(manifest: DatasetLocation, sequence: int) -> rules.PublishVerdict | None:
    """Whether a publish goes forward or back; None if that is undecided. Raises CorruptData."""
    name = rules.verdict_name(sequence)
    content = files.read(manifest, f"{DIRECTORY}/{name}")
    return None if content is None else rules.decode_verdict(content, name)


def read_outcome(manifest: DatasetLocation, sequence: int) -> rules.PublishOutcome | None:
    """The outcome of a publish; None if it is unfinished. Raises CorruptData."""
    name = rules.outcome_name(sequence)
    content = files.read(manifest, f"{DIRECTORY}/{name}")
    return None if content is None else rules.decode_outcome(content, name)


def write_journal(manifest: DatasetLocation, journal: rules.Journal) -> bool:
    """Write a journal; False if another publish has its sequence number."""
    return _create(manifest, rules.journal_name(journal.sequence), journal.encode())


def decide(manifest: DatasetLocation, sequence: int, verdict: rules.PublishVerdict) -> rules.PublishVerdict:
    """Decide a publish; returns the verdict that counts, which is the first one."""
    if _create(manifest, rules.verdict_name(sequence), verdict.encode()):
        return verdict
    found = read_verdict(manifest, sequence)
    if found is None:
        raise CorruptData(f"The file {rules.verdict_name(sequence)} of a publish exists, but cannot be found.")
    return found


def write_outcome(manifest: DatasetLocation, outcome: rules.PublishOutcome) -> rules.PublishOutcome:
    """Write an outcome; returns the one that is stored, which is that of the first process."""
    if _create(manifest, rules.outcome_name(outcome.sequence), outcome.encode()):
        return outcome
    return read_outcome(manifest, outcome.sequence) or outcome


def _create(manifest: DatasetLocation, name: str, content: bytes) -> bool:
    path = f"{DIRECTORY}/{name}"
    if not manifest.is_local:
        return put_new(manifest, path, content)
    # A process that dies must not leave half a file under that name: it could never be replaced.
    passing = f"{DIRECTORY}/.{uuid4().hex}"
    write_below(manifest, passing, content)
    with files.reachable(manifest):
        whole = files.whole_path(manifest, path)
        try:
            os.link(files.whole_path(manifest, passing), whole)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            return put_new(manifest, path, content)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(files.whole_path(manifest, passing))
    return True
