"""What can be wrong with a dataset: a code for each finding, its severity and its remedy."""

from __future__ import annotations

from typing import NamedTuple

ERROR, WARNING, UNREACHABLE, NOTE = "error", "warning", "unreachable", "note"
SEVERITIES = (ERROR, UNREACHABLE, WARNING, NOTE)
"""The worst first. An error loses rows or versions; unreachable leaves the state unknown; a warning loses no row."""

MANIFEST_DAMAGED, MANIFEST_GONE, MANIFEST_UNKNOWN, MANIFEST_WRONG = (
    "manifest-damaged",
    "manifest-gone",
    "manifest-not-understood",
    "manifest-wrong-version",
)
ROWS_IMPOSSIBLE = "rows-impossible"
DATA_MISSING, DELETION_MISSING, INDEX_MISSING, TRANSACTION_MISSING, OTHER_MISSING = (
    "data-missing",
    "deletion-missing",
    "index-missing",
    "transaction-missing",
    "file-missing",
)
BLOB_MISSING, BLOB_SIZE_WRONG = "blob-missing", "blob-size-wrong"
OBJECT_MISSING, OBJECT_SHORT = "object-missing", "object-too-short"
SIZE_WRONG, INDEX_SIZE_WRONG = "size-wrong", "index-size-wrong"
DATA_DAMAGED, DELETION_DAMAGED, INDEX_DAMAGED = "data-damaged", "deletion-damaged", "index-damaged"
ROW_COUNT, DELETION_COUNT = "row-count", "deletion-count"
ROW_IDS_TWICE, ROW_IDS_IMPOSSIBLE = "row-ids-twice", "row-ids-impossible"
NULLS_IMPOSSIBLE = "nulls-impossible"
CONSTRAINT_BROKEN = "constraint-broken"
BASE_ABSENT, BASE_UNREACHABLE, FILE_UNREACHABLE = "base-absent", "base-unreachable", "file-unreachable"
BASE_LEFT = "base-absent-for-old-versions"
REF_DAMAGED, REF_WRONG, NO_VERSIONS, BRANCH_EMPTY, VERSIONS_LOST, VERSION_TWICE, TAG_DANGLING, PARENT_GONE = (
    "ref-damaged",
    "ref-wrong",
    "no-versions",
    "branch-without-versions",
    "versions-lost",
    "version-twice",
    "tag-dangling",
    "parent-gone",
)
NO_REF, UNCOMMITTED, SECOND_MAIN = "directory-without-ref", "uncommitted-files", "second-main"
ROWS_WAIT = "rows-wait"
CLONE_GONE, LINKED = "clone-gone", "directory-linked"
CASE_CLASH = "branches-differ-in-case"
MAIN_DAMAGED, REFLOG_DAMAGED, REFLOG_MISNAMED = "main-settings-damaged", "reflog-damaged", "reflog-misnamed"
REPAIR_DAMAGED, REPAIR_COPY_GONE, RECORD_UNFINISHED = "repair-damaged", "repair-copy-gone", "record-unfinished"


class Meaning(NamedTuple):
    """A finding's severity, description and remedy."""

    severity: str
    says: str
    do: str


_RESTORE = "Restore the file from a backup or from the store's versions of objects."
_RESTORE_OBJECT = "Restore the object, or give these rows another blob. No command here changes or deletes it."
_DROP_ROWS = (
    "Restore the file. If it is lost, lance-git fsck --repair makes a branch without its rows: merge that, delete it "
    "with --purge, and clean up."
)
_INDEX_AGAIN = (
    "On each of these branches, drop the index and create it again; then clean up. Move or delete tags that have it."
)
_OLDER = "Restore an older version; if none is sound, write what can be read to a new dataset."
OF_A_VERSION = frozenset({_DROP_ROWS, _INDEX_AGAIN, _OLDER})
"""Advice about a version: one that only old versions need goes with a cleanup."""
OF_A_DIRECTORY = frozenset({NO_REF, SECOND_MAIN})
"""Advice to remove a directory, in which those of other branches may lie."""
MEANINGS = {
    MANIFEST_DAMAGED: Meaning(ERROR, "A manifest cannot be understood: the version is lost.", _RESTORE),
    MANIFEST_GONE: Meaning(ERROR, "A manifest was listed and cannot be read.", _RESTORE),
    MANIFEST_UNKNOWN: Meaning(
        WARNING, "A version has features that this package does not know; it was not checked.", "Use a newer version."
    ),
    MANIFEST_WRONG: Meaning(ERROR, "A manifest holds another version than its name says.", _RESTORE),
    ROWS_IMPOSSIBLE: Meaning(ERROR, "A version contradicts itself about its rows.", _OLDER),
    DATA_MISSING: Meaning(ERROR, "A data file is missing: its rows are lost.", _DROP_ROWS),
    BLOB_MISSING: Meaning(ERROR, "A file with blobs is missing: large values of its rows are lost.", _RESTORE),
    BLOB_SIZE_WRONG: Meaning(ERROR, "A file with blobs is not as long as its rows say.", _RESTORE),
    OBJECT_MISSING: Meaning(
        ERROR, "An object elsewhere that blobs refer to is missing: these blobs cannot be read.", _RESTORE_OBJECT
    ),
    OBJECT_SHORT: Meaning(
        ERROR, "An object elsewhere ends before the range that a blob refers to: it was replaced.", _RESTORE_OBJECT
    ),
    DELETION_MISSING: Meaning(ERROR, "A deletion file is missing: no reader can read its fragment.", _DROP_ROWS),
    INDEX_MISSING: Meaning(ERROR, "A file of an index is missing: queries that use it fail.", _INDEX_AGAIN),
    TRANSACTION_MISSING: Meaning(
        WARNING,
        "A transaction file is missing: no row is lost, but merges and logs lack it.",
        "Leave it, or restore it.",
    ),
    OTHER_MISSING: Meaning(ERROR, "A file that a version names is missing.", _RESTORE),
    SIZE_WRONG: Meaning(ERROR, "A file has another size than its version recorded.", _DROP_ROWS),
    INDEX_SIZE_WRONG: Meaning(ERROR, "A file of an index has another size than recorded.", _INDEX_AGAIN),
    DATA_DAMAGED: Meaning(ERROR, "A data file cannot be opened: its rows are lost.", _DROP_ROWS),
    DELETION_DAMAGED: Meaning(ERROR, "A deletion file cannot be understood.", _DROP_ROWS),
    INDEX_DAMAGED: Meaning(ERROR, "A file of an index cannot be opened.", _INDEX_AGAIN),
    ROW_COUNT: Meaning(ERROR, "A data file has another number of rows than its version says.", _DROP_ROWS),
    DELETION_COUNT: Meaning(ERROR, "A deletion file deletes other rows than its version says.", _DROP_ROWS),
    ROW_IDS_TWICE: Meaning(ERROR, "Two rows have one stable row id: an index may return the wrong one.", _OLDER),
    ROW_IDS_IMPOSSIBLE: Meaning(ERROR, "Stable row ids cannot be right.", _OLDER),
    NULLS_IMPOSSIBLE: Meaning(
        ERROR,
        "Rows have no value in a column that cannot be null: no reader can read them.",
        "Let the column be null again (ALTER COLUMN ... DROP NOT NULL), give the rows a value, then SET NOT NULL.",
    ),
    CONSTRAINT_BROKEN: Meaning(
        WARNING,
        "Rows break a CHECK constraint: a tool that does not know constraints wrote them.",
        "Change or delete these rows; or drop the constraint: t.constraints.drop(...).",
    ),
    BASE_ABSENT: Meaning(
        ERROR,
        "Files are read from a base path where nothing is.",
        "If the dataset was moved: lance-git relocate. A tag on a version from before the move stays there: move the "
        "tag to a version that came later, or delete it; or put the files back.",
    ),
    BASE_LEFT: Meaning(
        WARNING,
        "Only old versions read files from a base path where nothing is: no branch, tag or clone reads it.",
        "If the dataset was moved, a cleanup removes them in time (one that keeps any needs --known-base); otherwise "
        "put the files back.",
    ),
    BASE_UNREACHABLE: Meaning(
        UNREACHABLE, "A base path could not be checked; its files may exist.", "Check network and credentials."
    ),
    FILE_UNREACHABLE: Meaning(
        UNREACHABLE, "A file could not be read; it may be sound.", "Check network and credentials, then run it again."
    ),
    REF_DAMAGED: Meaning(ERROR, "A ref file or a note of a clone cannot be understood.", "Restore it, or remove it."),
    REF_WRONG: Meaning(
        ERROR, "A branch's ref contradicts what was made of the branch: merges would be wrong.", "Restore it."
    ),
    NO_VERSIONS: Meaning(ERROR, "Main has no version.", "Check the path and what the credentials may list."),
    BRANCH_EMPTY: Meaning(ERROR, "A branch has a ref and no version.", "Delete it, or restore its directory."),
    VERSIONS_LOST: Meaning(ERROR, "Versions newer than the existing ones were written.", "Restore their manifests."),
    VERSION_TWICE: Meaning(WARNING, "A version has two manifests.", "Let the migration of manifest names end."),
    TAG_DANGLING: Meaning(ERROR, "A tag names a version that does not exist.", "Delete the tag, or move it."),
    PARENT_GONE: Meaning(WARNING, "A branch was made from a branch that is gone.", "Merge or delete the branch."),
    NO_REF: Meaning(
        NOTE,
        "A directory of a branch has versions and no ref.",
        "If lance-git reflog says that the branch was deleted, it can be restored, and expire-refs removes the "
        "directory. Otherwise remove it if no job is creating it.",
    ),
    SECOND_MAIN: Meaning(
        ERROR,
        "A dataset was written to tree/main: no reader of main sees its rows, as main is the root.",
        "Append its rows to main with pylance or Spark, which read it by that path; then remove the directory.",
    ),
    ROWS_WAIT: Meaning(
        WARNING,
        "Rows wait in pylance's write-ahead log (MemWAL), in no version: no reader of the table sees them.",
        "t.compact_wal() brings them into the table.",
    ),
    UNCOMMITTED: Meaning(NOTE, "Files that no version names have been there for a long time.", "Run a cleanup."),
    LINKED: Meaning(
        WARNING,
        "A directory is a symbolic link: no cleanup runs, as what is behind it may belong to another dataset, too.",
        "Move the directory back, or mount it there: mount --bind.",
    ),
    CASE_CLASH: Meaning(
        WARNING,
        "The directory of a branch has another branch's spelling, as this disk does not tell upper from lower case: a "
        "copy of the dataset on a disk or store that does would lose the branch.",
        "Before you copy the dataset, merge the branch into one whose name differs in more than case.",
    ),
    CLONE_GONE: Meaning(
        NOTE, "A recorded clone does not exist.", "If it is gone for good, delete its tag: lance-git tag -d TAG -f."
    ),
    MAIN_DAMAGED: Meaning(
        ERROR,
        "The settings of main cannot be understood: no write to main and no cleanup runs.",
        "Restore the file; or remove it, and set owner, protection and retained versions again.",
    ),
    REFLOG_DAMAGED: Meaning(
        ERROR,
        "A record of a changed ref cannot be understood: no cleanup runs, and no change of a ref can be undone.",
        "Restore the file; or remove it if that change never needs to be undone.",
    ),
    REFLOG_MISNAMED: Meaning(
        WARNING,
        "A record of a changed ref has another time in its name than inside: changes are in the wrong order.",
        "Give the file its name back: nanoseconds since 1970 in 20 digits, a dash, 8 hexadecimal digits, .json.",
    ),
    REPAIR_DAMAGED: Meaning(
        ERROR,
        "The record of a repair cannot be understood: no cleanup runs, and the repair cannot be undone.",
        "Restore the file; or move its directory elsewhere, with what the repair kept.",
    ),
    REPAIR_COPY_GONE: Meaning(
        WARNING, "A file that a repair moved away is no longer in the quarantine: it cannot be restored.", _RESTORE
    ),
    RECORD_UNFINISHED: Meaning(
        NOTE, "A process was killed while it wrote a record, or removed one.", "Remove it: nothing reads it."
    ),
}

MANIFEST_CODES = frozenset({MANIFEST_DAMAGED, MANIFEST_WRONG})
