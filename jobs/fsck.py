"""Check: whether everything that the versions of a Lance dataset name exists, for main, branches, tags and clones.

    spark-submit jobs/fsck.py s3://bucket/flights.lance             # manifests, files, sizes, refs, base paths
    spark-submit jobs/fsck.py s3://bucket/flights.lance --deep      # also inside files
    spark-submit jobs/fsck.py s3://bucket/flights.lance --repair    # also repair; with --dry-run only show it
    spark-submit jobs/fsck.py s3://bucket/flights.lance --undo last # undo the last repair
    spark-submit jobs/fsck.py --catalog s3://bucket/lake            # every table, and the catalog itself

Changes nothing without --repair or --undo. Findings are printed as a table, and written as JSON with --report.

Exit codes: 0 sound, with at most warnings and notes, or everything was repaired; 20 something could not be reached, or
the store did not answer; 22 something is missing or damaged; 6 part of it was repaired, or only the catalog has
problems; 2 bad option; 3 a repair that is not allowed; 10 there is no dataset; 12 the dataset never stopped changing;
21 no permission.
"""

import sys
from functools import partial

from lance_spark.jobs import fsck

parser, main = partial(fsck.parser, __doc__), partial(fsck.main, __doc__)

if __name__ == "__main__":
    sys.exit(main())
