"""Which manifests repairs moved away."""

from __future__ import annotations

from datetime import datetime

from lance_spark.checkup.codes import MANIFEST_CODES
from lance_spark.checkup.record import RECORD, read_record
from lance_spark.checkup.repair_steps import Quarantine
from lance_spark.cleanup.survey import Quarantined
from lance_spark.layout.names import QUARANTINE
from lance_spark.location import DatasetLocation
from lance_spark.store import files


def read_quarantined(location: DatasetLocation) -> tuple[Quarantined, ...]:
    """The manifests that repairs moved away, except for those that are there under another name.

    Raises CorruptData for a record that cannot be understood.
    """
    paths = [f"{QUARANTINE}/{name}/{RECORD}" for name in files.list_names(location, QUARANTINE)]
    contents = files.read_many(location, paths) if paths else []
    return tuple(
        Quarantined(step.branch, int(datetime.fromisoformat(record.made).timestamp()) * 10**9)
        for record in (read_record(content) for content in contents if content is not None)  # others were taken back
        for step in record.steps
        if isinstance(step, Quarantine) and step.why in MANIFEST_CODES
    )
