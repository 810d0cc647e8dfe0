"""Migration of a catalog from V1 to V2: every table that is only a directory gets a row in ``__manifest``.

    spark-submit jobs/migrate_catalog.py s3://lake --dry-run    # which tables would get a row
    spark-submit jobs/migrate_catalog.py s3://lake              # one commit

No data is moved, and jobs that only know V1 can continue: run it again for the tables that they create. Afterwards the
catalog can be opened in mode v2, which lists no directories. The driver does all the work, so plain Python can also run
it.

Exit codes: 0 done; 2 bad option; 10 not found; 12 conflict; 20 the store did not answer; 21 no permission; 22 a file
cannot be read.
"""

import sys
from functools import partial

from lance_spark.jobs import migrate_catalog

parser, main = partial(migrate_catalog.parser, __doc__), partial(migrate_catalog.main, __doc__)

if __name__ == "__main__":
    sys.exit(main())
