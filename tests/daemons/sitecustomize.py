"""Makes Spark's worker processes start in no time; Python finds this file where PYTHONPATH names its directory.

A worker that reported an error ends, and the next one imports everything again: two seconds of a processor, most of
them for pandas, which pyarrow and lance bring along. Half of the tests are about errors. Here the daemon has imported
it before it forks. Only lance is left to the worker, as it does not survive a fork. The daemon of the look-up of data
sources forks once in a session, so it would import all of that for nothing.

Tests that kill a program at one line of its code prepare its processes here as well.
"""

import os
import sys

if "DIES_AT" in os.environ:  # before anything is imported that it changes
    from support import dying

    dying.install()

if "pyspark.daemon" in sys.orig_argv and "pyspark.sql.worker.lookup_data_sources" not in sys.orig_argv:
    import fsspec  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.dataset  # noqa: F401
    import pyspark.worker  # noqa: F401

    import lance_spark.datasource.reader
    import lance_spark.datasource.writer  # noqa: F401

    assert "lance" not in sys.modules
