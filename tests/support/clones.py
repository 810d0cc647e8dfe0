"""What tests know of clones: the name that a clone has at its source."""

from lance_spark.core.location import DatasetLocation
from lance_spark.survey.identity import read_identity


def name_of(clone: DatasetLocation) -> str:
    known = read_identity(clone)
    assert known is not None
    return known.name
