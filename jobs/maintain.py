"""Maintenance: keeps the tables of a lake fast, small and sound, on main and on every branch.

    spark-submit jobs/maintain.py s3://lake --policy policy.toml                      # what would be done, and why
    spark-submit jobs/maintain.py s3://lake --policy policy.toml --execute            # do it
    spark-submit jobs/maintain.py s3://lake/flights.lance --execute --for 2h          # one table, for two hours

Each table is checked when that is due and compacted, its indexes are updated, expired refs are deleted, and then old
versions and files that nothing needs. If a check finds damage, nothing is deleted from that table. One table never
stops another.

--report, --html and --metrics are written after each table, so that an interrupted job still shows what it did. Until
the end, they are marked as unfinished.

With --for, the most valuable tables come first, and steps without enough time are left for the next run. --state
remembers them, and when each table was checked.

Exit codes: 0 done, even if steps were left for lack of time; 6 a step failed, or a check found damage; 2 bad option; 10
not found; 20 the store did not answer; 21 no permission; another code if all tables ended with that error.
"""

import sys
from functools import partial

from lance_spark.jobs import maintain

parser, main = partial(maintain.parser, __doc__), partial(maintain.main, __doc__)

if __name__ == "__main__":
    sys.exit(main())
