"""What a client and the process beside its server say to each other."""

from datetime import datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from lance_spark import errors
from lance_spark.connect import messages
from lance_spark.connect.messages import Failure, answered, failed, opened_answer, refused

pytestmark = pytest.mark.pure


def test_a_request_comes_as_it_went():
    text = messages.request(messages.REGISTER, "id", catalog="läke", storage_options={"secret": "s'`\n"})
    assert messages.opened_request(text) == (
        "register",
        "id",
        {"catalog": "läke", "storage_options": {"secret": "s'`\n"}},
    )


@pytest.mark.parametrize("value", [None, 1, "x", {"a": [1, None]}])
def test_an_answer_comes_as_it_went(value):
    assert opened_answer(answered(value)) == (value, None)


def test_an_error_of_this_package_stays_one():
    _, error = opened_answer(refused(errors.NotFound("There is no table.", hint="Create it.")))
    assert isinstance(error, errors.NotFound)
    assert (error.message, error.hint) == ("There is no table.", "Create it.")


@pytest.mark.parametrize("name", ["FromTheFuture", "PREFIX", "annotations"])
def test_an_error_of_another_version_is_its_text(name):
    text = refused(errors.NotFound("gone")).replace("NotFound", name)
    assert opened_answer(text) == (None, Failure("gone"))


def test_another_error_is_its_text():
    failure = Failure("division by zero", "ArithmeticException", "DIVIDE_BY_ZERO")
    assert opened_answer(failed(failure)) == (None, failure)


def test_parameters_and_rows_come_as_they_went():
    args = {"at": datetime(2026, 1, 2, 3, tzinfo=timezone.utc), "price": Decimal("1.50"), "raw": b"\x00"}
    assert messages.unpacked(messages.packed(args)) == args
    table = pa.table({"id": [1, None], "t": pa.array([1, 2], pa.timestamp("us", "UTC"))})
    assert messages.unpacked_rows(messages.packed_rows(table)) == table
    # Spark's server 4.0 takes the first batch of a client's table, and leaves out all others without a word.
    assert len(messages.unpacked_rows(messages.packed_rows(pa.concat_tables([table, table]))).to_batches()) == 1
