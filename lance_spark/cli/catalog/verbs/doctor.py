"""The verbs that check a catalog: ``doctor`` and ``fsck``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.output import PARTLY_DONE, Output, confirm
from lance_spark.cli.program import dry_run_option, options_of, verb, yes_option
from lance_spark.core.show import fields_of
from lance_spark.core.texts import counted
from lance_spark.errors import InvalidOption
from lance_spark.fsck.option_rules import FsckOptions

if TYPE_CHECKING:
    from lance_spark.catalog.doctor_rules import Finding


@verb("doctor")
@click.option("--mend", is_flag=True, help="Mend what can be mended without loss.")
@dry_run_option
@yes_option
@click.pass_obj
def doctor(session: CatalogSession, mend: bool, dry_run: bool, yes: bool) -> int:
    """Find problems of the catalog, and mend them.

    Finds rows without files, directories and ids that are used twice, missing namespaces and indexes, marks that hide
    tables, and directories that no row names. The job cleanup with --catalog deletes such directories after a day.
    """
    from lance_spark.catalog.doctor import examine
    from lance_spark.catalog.doctor import mend as mend_findings
    from lance_spark.catalog.doctor_rules import UNREGISTERED

    if dry_run and not mend:
        raise InvalidOption("--dry-run needs --mend.", hint="Without --mend, nothing is changed.")
    catalog = session.catalog
    findings = examine(catalog, _now())
    plain = [finding for finding in findings if finding.kind == UNREGISTERED and catalog.reads_manifest]
    wrong = [finding for finding in findings if finding.kind != UNREGISTERED]
    curable = [finding for finding in wrong if finding.mendable]
    mended: Sequence[Finding] = ()
    if mend and curable and not dry_run:
        what = f"{counted(len(curable), 'finding')} of {catalog.uri} will be mended."
        confirm(what, yes, _table(session.output, curable))
        mended = mend_findings(catalog, curable)
    would = curable if mend and dry_run else ()
    session.show(
        {
            "findings": [_json(finding, mended) for finding in wrong],
            "not_registered": [finding.subject for finding in plain],
            "dry_run": dry_run,
        },
        "\n".join(_lines(session, wrong, len(plain), (mended, would))),
    )
    return PARTLY_DONE if len(wrong) > len(mended) else 0


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _json(finding: Finding, mended: Sequence[Finding]) -> dict[str, Any]:
    return fields_of(finding, "kind", "subject", "message", "mendable") | {"mended": finding in mended}


def _table(output: Output, findings: Sequence[Finding]) -> str:
    rows = [(finding.kind, finding.subject, finding.message) for finding in findings]
    return output.table(("finding", "where", "what"), rows)


def _lines(
    session: CatalogSession, wrong: Sequence[Finding], plain: int, done: tuple[Sequence[Finding], Sequence[Finding]]
) -> Iterator[str]:
    from lance_spark.catalog.doctor_rules import ORPHAN

    mended, would = done
    if wrong:
        yield _table(session.output, wrong)
        yield ""
    if plain:
        yield f"{counted(plain, 'table')} without a row: {session.typed} migrate gives every directory one."
    if any(finding.kind == ORPHAN for finding in wrong):
        yield "python -m lance_spark.jobs.cleanup --catalog deletes what interrupted jobs left behind."
    if not wrong:
        yield f"Nothing is wrong with {session.catalog.uri}."
    elif mended or would:
        yield f"{counted(len(mended or would), 'finding')} {'mended' if mended else 'would be mended'}."
    elif any(finding.mendable for finding in wrong):
        yield f"{counted(len(wrong), 'finding')}; {session.typed} doctor --mend mends those that can be mended."
    else:
        yield f"{counted(len(wrong), 'finding')}; none can be mended without loss."


@verb("fsck")
@options_of(FsckOptions, "deep")
@click.pass_obj
def fsck(session: CatalogSession, deep: bool) -> int:
    """Check every table, and the catalog itself.

    Checks all tables like lance-git fsck checks one, and the catalog like doctor. Changes nothing. Exit code 22 means
    that a table is damaged, 20 that something could not be reached, 6 that only the catalog has problems. On a cluster:
    spark-submit jobs/fsck.py --catalog ROOT.
    """
    from lance_spark.fsck.lake import fsck_catalog

    report = fsck_catalog(session.catalog, FsckOptions(deep), session.engine, datetime.now(timezone.utc))
    session.show(json.loads(report.to_json()), str(report))
    return report.exit_code
