"""lance-catalog, and the cleanup of a catalog, on S3: nothing but --storage tells where it is and who asks."""

import json

import pytest
from support.s3_tables import rows, write
from support.scripts import script

from lance_spark.cli.catalog.main import main

pytestmark = pytest.mark.s3


@pytest.fixture
def command(capsys, storage):
    """Runs a command line on a catalog, with the storage options of the store or with others."""

    def run(main, *arguments, options=storage):
        pairs = [part for key, value in options.items() for part in ("--storage", f"{key}={value}")]
        code = main([*pairs, *map(str, arguments)])
        said = capsys.readouterr()
        assert "hush-hush" not in said.out + said.err
        return code, said.out, said.err

    return run


def test_a_day_with_a_catalog_on_s3(command, bucket, storage, tmp_path):
    root = f"s3://{bucket}/lake"

    def lance_catalog(*arguments):
        code, out, err = command(main, "-C", root, *arguments)
        assert code == 0, err
        return out

    lance_catalog("create", "ns1.ns2", "--parents")
    for name in ("trips", "ns1.flights"):
        place = json.loads(lance_catalog("create", name, "--table", "--json"))["location"]
        write(place, storage, [1, 2])
        write(place, storage, [3])
    lance_catalog("rename", "trips", "ns1.ns2.trips")
    assert lance_catalog("ls", "-r").splitlines() == ["ns1.", "ns1.flights", "ns1.ns2.", "ns1.ns2.trips"]
    trips = json.loads(lance_catalog("describe", "ns1.ns2.trips", "--json"))
    assert (trips["newest"]["rows"], rows(trips["location"], storage)) == (3, [1, 2, 3])
    lance_catalog("deregister", "ns1.flights")
    lance_catalog("register", "ns1.flights")

    job = script("jobs/cleanup.py")
    report = tmp_path / "report.json"
    cleanup = (
        "--catalog",
        root,
        "--local",
        "--older-than",
        "0s",
        "--commit-window",
        "0s",
        "--execute",
        "--report",
        report,
    )
    assert command(job.main, *cleanup)[0] == 0
    told = json.loads(report.read_text())
    assert {table["table"]: table["state"] for table in told["tables"]} == {
        "ns1.flights": "done",
        "ns1.ns2.trips": "done",
    }
    assert [each["name"] for each in told["upkeep"]] == ["__manifest"]
    assert rows(trips["location"], storage) == [1, 2, 3]
    lance_catalog("rm", "ns1", "--cascade", "--yes")
    assert lance_catalog("ls", "-r") == ""
    assert lance_catalog("doctor") == f"Nothing is wrong with {root}.\n"


@pytest.mark.when(day=0)  # by day test_catalog_s3.py has it without a shell
def test_nobody_answers_is_not_an_empty_catalog(command, bucket, storage, closed_port):
    dead = {**storage, "aws_endpoint": closed_port, "client_max_retries": "1", "client_retry_timeout": "1"}
    code, out, err = command(main, "-C", f"s3://{bucket}/lake", "ls", options=dead)
    assert (code, out) == (20, "")
    assert err.startswith("error: ")
