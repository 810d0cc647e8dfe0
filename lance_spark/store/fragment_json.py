"""Fragments and places as pylance takes them in a commit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from lance_spark.errors import CorruptData
from lance_spark.manifest.contents import Fragment
from lance_spark.merge.snapshot import Root

if TYPE_CHECKING:
    import lance


def base_path(root: Root, base_id: int = 0) -> lance.DatasetBasePath:
    """A place as pylance registers it; 0 leaves the id to pylance. Places without a name would clash."""
    import lance

    return lance.DatasetBasePath(root.uri, sha256(root.uri.encode()).hexdigest()[:16], root.is_dataset, base_id)


def fragments_from(fragments: Sequence[Any]) -> list[Any]:
    """Fragments as pylance's commit takes them, from its JSON."""
    from lance.fragment import FragmentMetadata

    return [FragmentMetadata.from_json(json.dumps(entry)) for entry in fragments]


def fragment_json(dataset: lance.LanceDataset, fragment: Fragment) -> dict[str, Any]:
    """A fragment as pylance's JSON."""
    lance_fragment = dataset.get_fragment(fragment.id)
    if lance_fragment is None:
        raise CorruptData(f"pylance does not find fragment {fragment.id} that the manifest names.")
    result: dict[str, Any] = lance_fragment.metadata.to_json()
    return result
