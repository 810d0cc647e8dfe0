"""The files of publishes, below ``__manifest/_lake/publishes``: each is created once, whole, and never changed.

Beside them, below ``_lake/audits``, is what the last audit of each branch of the lake said.
"""

from __future__ import annotations

import os
from contextlib import suppress
from uuid import uuid4

from lance_spark.catalog.directories import put_new
from lance_spark.catalog.publish_rules import (
    AuditRecord,
    Journal,
    PublishOutcome,
    PublishVerdict,
    audit_file,
    decode,
    decode_audit,
    journal_name,
    outcome_name,
    sequence_of,
    verdict_name,
)
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import CorruptData
from lance_spark.storage import files
from lance_spark.storage.small_files import sync_directory, write_below

DIRECTORY = "_lake/publishes"
AUDITS = "_lake/audits"


def sequences(manifest: DatasetLocation) -> list[int]:
    """The sequence numbers of all publishes, newest first. One listing."""
    numbers = map(sequence_of, files.list_names(manifest, DIRECTORY))
    return sorted((number for number in numbers if number is not None), reverse=True)


def read_journal(manifest: DatasetLocation, sequence: int) -> Journal:
    """The journal of a publish. Raises CorruptData."""
    name = journal_name(sequence)
    content = files.read(manifest, f"{DIRECTORY}/{name}")
    if content is None:
        raise CorruptData(f"The file {name} of a publish was listed, but cannot be found.")
    return decode(Journal, content, name)


def read_verdict(manifest: DatasetLocation, sequence: int) -> PublishVerdict | None:
    """Whether a publish goes forward or back; None if that is undecided. Raises CorruptData."""
    name = verdict_name(sequence)
    content = files.read(manifest, f"{DIRECTORY}/{name}")
    return None if content is None else decode(PublishVerdict, content, name)


def read_outcome(manifest: DatasetLocation, sequence: int) -> PublishOutcome | None:
    """The outcome of a publish; None if it is unfinished. Raises CorruptData."""
    name = outcome_name(sequence)
    content = files.read(manifest, f"{DIRECTORY}/{name}")
    return None if content is None else decode(PublishOutcome, content, name)


def write_journal(manifest: DatasetLocation, journal: Journal) -> bool:
    """Write a journal; False if another publish has its sequence number, or the one before has no outcome yet.

    Whoever looks for an unfinished publish looks at the last one only: one before it would never be ended.
    """
    before = journal.sequence - 1
    if before and read_outcome(manifest, before) is None:
        return False
    content = journal.encode()
    if _create(manifest, journal_name(journal.sequence), content):
        return True
    # A client whose first try arrived, but not the answer, tries again and finds the file: its own.
    return files.read(manifest, f"{DIRECTORY}/{journal_name(journal.sequence)}") == content


def decide(manifest: DatasetLocation, sequence: int, verdict: PublishVerdict) -> PublishVerdict:
    """Decide a publish; returns the verdict that counts, which is the first one."""
    if _create(manifest, verdict_name(sequence), verdict.encode()):
        return verdict
    found = read_verdict(manifest, sequence)
    if found is None:
        raise CorruptData(f"The file {verdict_name(sequence)} of a publish exists, but cannot be found.")
    return found


def write_outcome(manifest: DatasetLocation, outcome: PublishOutcome) -> PublishOutcome:
    """Write an outcome; returns the one that is stored, which is that of the first process."""
    if _create(manifest, outcome_name(outcome.sequence), outcome.encode()):
        return outcome
    return read_outcome(manifest, outcome.sequence) or outcome


def write_audit(manifest: DatasetLocation, branch_id: str, record: AuditRecord) -> None:
    """Record what an audit of a branch of the lake said, in place of the one before. Raises StorageFailure."""
    name = audit_file(branch_id)
    if name is not None:
        write_below(manifest, f"{AUDITS}/{name}", record.encode())


def read_audit(manifest: DatasetLocation, branch_id: str) -> AuditRecord | None:
    """What the last audit of a branch of the lake said; None without one. Raises CorruptData, StorageFailure."""
    name = audit_file(branch_id)
    content = None if name is None else files.read(manifest, f"{AUDITS}/{name}")
    return None if content is None or name is None else decode_audit(content, name)


def _create(manifest: DatasetLocation, name: str, content: bytes) -> bool:
    path = f"{DIRECTORY}/{name}"
    if not manifest.is_local:
        return put_new(manifest, path, content)
    # A process that dies must not leave half a file under that name: it could never be replaced. A file system without
    # hard links raises; pylance cannot commit to one either.
    passing = f"{DIRECTORY}/.{uuid4().hex}"
    write_below(manifest, passing, content)
    with files.reachable(manifest):
        whole = files.whole_path(manifest, path)
        try:
            os.link(files.whole_path(manifest, passing), whole)
        except FileExistsError:
            return False
        finally:
            with suppress(FileNotFoundError):
                os.unlink(files.whole_path(manifest, passing))
        sync_directory(os.path.dirname(whole))
    return True
