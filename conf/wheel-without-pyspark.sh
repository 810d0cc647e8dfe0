#!/usr/bin/env bash
# conf/wheel-without-pyspark.sh DIRECTORY
#
# Builds the wheel for platforms with their own Spark, without the dependency on pyspark. On Databricks, a pyspark from
# PyPI ends the session. On EMR, it takes 450 MB on each executor, and if Python finds it before the cluster's own, a
# client of another version talks to the JVM. Everything else is the ordinary wheel. Needs Python with pip.
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
mkdir -p "$1"
target=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R pyproject.toml README.md LICENSE lance_spark pyspark_lance "$work"
sed -i.bak '/^    "pyspark>=/d' "$work/pyproject.toml"
if cmp -s pyproject.toml "$work/pyproject.toml"; then
    echo "wheel-without-pyspark: pyproject.toml no longer has a line with the dependency on pyspark" >&2
    exit 1
fi
"${PYTHON:-python3}" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$target" "$work"
