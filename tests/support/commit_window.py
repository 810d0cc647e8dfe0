"""What pylance does with a dataset that it opened before others committed. Used on local disk and on S3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

Job = Callable[[Any], object]
"""Takes the dataset as it was opened, and commits to it."""


def compact(opened: Any) -> None:
    opened.optimize.compact_files()


def delete(opened: Any) -> None:
    opened.delete("id = 4")


def update(opened: Any) -> None:
    opened.update({"id": "id + 100"}, "id = 4")


def upsert(opened: Any) -> None:
    changes = pa.table({"id": pa.array([4, 200], pa.int64())}, opened.schema)
    opened.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(changes)


JOBS: dict[Job, list[int]] = {
    compact: [0, 1, 2, 4, 5, 90],
    delete: [0, 1, 2, 5, 90],
    update: [0, 1, 2, 5, 90, 104],
    upsert: [0, 1, 2, 4, 5, 90, 200],
}
"""Each job, with the ids afterwards: the job opened 0 to 5, and meanwhile row 3 was deleted and row 90 appended."""


def finish(job: Job, opened: Any) -> None:
    """Commit the job on top of what others did. A compaction clashes with the deletion and changes nothing."""
    if job is compact:
        with pytest.raises(OSError, match="onflict"):
            job(opened)
    else:
        job(opened)
