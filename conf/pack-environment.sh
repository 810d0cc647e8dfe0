#!/usr/bin/env bash
# PYTHON=python3.11 conf/pack-environment.sh [ARCHIVE]      (default: python3, lance-spark-environment.tar.gz)
#
# Packs a virtual environment with lance_spark for spark.archives, spark-submit --archives and EMR. Needs Python with
# pip and venv, and network access. The environment is created in a temporary directory and removed afterwards.
#
# Run it with the cluster's operating system, processor and Python: the archive holds compiled libraries, and its
# bin/python is a symbolic link to the interpreter that made it, which every node must have at the same path. For EMR
# releases with Spark 4 on x86-64 (Amazon Linux 2023, Python 3.11):
#
#   docker run --rm --volume "$PWD":/work --workdir /work public.ecr.aws/amazonlinux/amazonlinux:2023 bash -c \
#       'dnf install --assumeyes --quiet python3.11 python3.11-pip tar gzip &&
#        PYTHON=python3.11 conf/pack-environment.sh'
#   aws s3 cp lance-spark-environment.tar.gz s3://my-bucket/environments/
#   aws s3 cp jobs/maintain.py s3://my-bucket/jobs/
set -euo pipefail

python=${PYTHON:-python3}
archive=${1:-lance-spark-environment.tar.gz}
conf=$(cd "$(dirname "$0")" && pwd)
# A checkout is packed as it is; beside files that lance-catalog schedule wrote, the release that wrote them.
package=${PACKAGE:-lance-spark}
[ ! -f "$conf/../pyproject.toml" ] || package="$conf/.."

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    { echo "pack-environment: $python is not Python 3.10 or newer; name another one with PYTHON=" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
environment="$work/environment"

"$python" -m venv "$environment"
# Without the extra "spark": a second Spark would take 450 MB on each executor, and if Python found it before the
# cluster's own, a client of another version would talk to the JVM. Spark needs pandas to run Python functions.
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check "$package" 'pandas>=2.2' venv-pack

# A library that does not fit this Python must fail here rather than in the first task on an executor.
"$environment/bin/python" -c 'import google.protobuf, lance, lance_spark, pandas, pyarrow, pyroaring, s3fs'

"$environment/bin/venv-pack" --quiet --force --prefix "$environment" --output "$archive"
echo "$archive: $(du -h "$archive" | cut -f 1), for nodes with $(readlink -f "$environment/bin/python")"
