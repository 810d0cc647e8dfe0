"""Cleanup: removes old versions of a Lance dataset, and files that nothing needs, on main and all branches.

    spark-submit jobs/cleanup.py s3://bucket/flights.lance --older-than 14d            # what would be deleted, and why
    spark-submit jobs/cleanup.py s3://bucket/flights.lance --older-than 14d --execute  # delete it
    spark-submit jobs/cleanup.py --catalog s3://lake --older-than 14d --execute        # every table of a catalog

Kept: the newest version of main and of every branch, every tagged version, the version that each branch was created
from, everything that the policy keeps, and what clones need. Files that no version names are deleted at an age of 7
days.

With --catalog, all tables are cleaned side by side, each a row of the report. A table that cannot be cleaned does not
stop the others, and the files that clones read are kept. Then the catalog's own table is cleaned, and directories that
no row names are deleted at an age of one day.

Exit codes: 0 done; 2 bad option; 3 refused, nothing was deleted; 6 some files could not be deleted, or some tables not
cleaned, and the next run finishes; 10 not found; 12 conflict; 20 the store did not answer; 21 no permission; 22 a file
cannot be read.
"""

import sys
from functools import partial

from lance_spark.jobs import cleanup

parser, main = partial(cleanup.parser, __doc__), partial(cleanup.main, __doc__)

if __name__ == "__main__":
    sys.exit(main())
