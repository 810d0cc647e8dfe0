"""Makes Spark's worker processes start a second faster; Python finds this file where PYTHONPATH names its directory.

A worker that reported an error ends, and the next one imports pandas (through lance and pyarrow) again. Half of the
tests are about errors. Here the daemon has it before it forks.
"""

import sys

if "pyspark.daemon" in sys.orig_argv:
    import fsspec  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.dataset  # noqa: F401
