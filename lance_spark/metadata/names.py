"""Which metadata tables there are."""

from __future__ import annotations

from typing import Literal, get_args

MetadataTable = Literal["branches", "tags", "versions", "fragments", "files", "indexes"]
METADATA_TABLES: tuple[str, ...] = get_args(MetadataTable)
