"""(b): 1 % new rows come into main: by a merge, and by what people did without one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import lance
from lance.fragment import FragmentMetadata
from pyspark.sql import SparkSession

from benchmarks.measure import Result
from benchmarks.merging.data import BRANCH, DELTA_ROWS, Shape, table
from benchmarks.merging.growth import ours
from benchmarks.merging.measure import Run, Work, measure
from benchmarks.peers import OURS

_FRAGMENTS = 100


def peers(rows: int, spark: Callable[[], SparkSession], rounds: int) -> Result:
    """``rows`` in main; the branch appended 100,000. Except for the copy, each leaves the same rows in main."""
    shape = Shape(_FRAGMENTS, rows // _FRAGMENTS, deletes=False)
    made = table(shape)
    warm = spark()
    work = {
        "ours": Work(made, ours),
        "copying_the_table": Work(made, _copying, check=False),
        "Spark_rewrites_the_delta": Work(made, lambda uri: lambda: _with_spark(warm, uri, shape)),
        "pylance_rewrites_the_delta": Work(made, lambda uri: lambda: _with_pylance(uri, shape)),
        "floor": Work(made, lambda uri: _floor(uri, shape)),
    }
    return measure(f"(b) {100 * DELTA_ROWS / rows:g} % new rows into {rows:,}", work, (), rounds)


def peers_table(result: Result) -> str:
    """A Markdown table: seconds and bytes of everyone, and how many times ours that is."""
    lines = [f"| {result.name} | s | times ours | bytes written | times ours |", "|---|---:|---:|---:|---:|"]
    mine, written = result.medians.get("ours"), result.details.get("ours", {}).get("bytes_written")
    for who, seconds in result.medians.items():
        size = result.details[who]["bytes_written"]
        ratios = [f"{seconds / mine:.1f}" if mine else "", f"{size / written:.2f}" if written else ""]
        lines.append(f"| {who.replace('_', ' ')} | {seconds:.3f} | {ratios[0]} | {size:,} | {ratios[1]} |")
    return "\n".join(lines)


def _copying(uri: str) -> Run:
    """All files of main, without the branch: the delta would come on top."""
    target = f"{uri}.copy"
    shutil.rmtree(target, ignore_errors=True)
    return lambda: _nothing(shutil.copytree(uri, target, ignore=shutil.ignore_patterns("tree", "_refs")))


def _with_spark(spark: SparkSession, uri: str, shape: Shape) -> None:
    """Nothing in a table tells a query which rows are new; here their ids do."""
    new = spark.read.format(OURS).option("branch", BRANCH).option("filter", f"id >= {shape.rows}").load(uri)
    new.write.format(OURS).mode("append").save(uri)


def _with_pylance(uri: str, shape: Shape) -> None:
    """The new fragments, which a program has to find out; no process, no session."""
    branch = lance.dataset(f"{uri}/tree/{BRANCH}")
    new = [fragment for fragment in branch.get_fragments() if fragment.fragment_id >= shape.fragments]
    lance.write_dataset(branch.scanner(fragments=new).to_reader(), uri, mode="append")


def _floor(uri: str, shape: Shape) -> Run:
    """Copy the files, which are known already, and append them: what a merge cannot do without."""
    branch = lance.dataset(f"{uri}/tree/{BRANCH}")
    new = [fragment.metadata for fragment in branch.get_fragments() if fragment.fragment_id >= shape.fragments]

    def run() -> None:
        for fragment in new:
            for file in fragment.files:
                shutil.copyfile(f"{uri}/tree/{BRANCH}/data/{file.path}", f"{uri}/data/{file.path}")
        fragments = [FragmentMetadata.from_json(_json(fragment)) for fragment in new]
        dataset = lance.dataset(uri)
        lance.LanceDataset.commit(dataset, lance.LanceOperation.Append(fragments), read_version=dataset.version)

    return run


def _json(fragment: FragmentMetadata) -> str:
    return json.dumps({**fragment.to_json(), "id": 0})


def _nothing(_: object) -> None:
    """Where a copy is, is no detail."""
