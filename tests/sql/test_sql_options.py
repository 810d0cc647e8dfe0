"""Settings of a session for statements that change rows."""

import pytest

from lance_spark.errors import InvalidOption
from lance_spark.sql.statement_rules import COMMIT_MESSAGE, RETRIES, StatementOptions, parse_statement_options

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("message", "retries", "options"),
    [
        (None, None, StatementOptions()),
        ("", "", StatementOptions()),
        (" ", "0", StatementOptions()),
        (" nightly run ", None, StatementOptions("nightly run")),
        (None, " 3 ", StatementOptions(retries=3)),
        ("late", "12", StatementOptions("late", 12)),
    ],
)
def test_what_is_set(message, retries, options):
    assert parse_statement_options({COMMIT_MESSAGE: message, RETRIES: retries}) == options


def test_nothing_is_set():
    assert parse_statement_options({}) == StatementOptions()


@pytest.mark.parametrize("retries", ["-1", "many", "1.5", "true", "²"])
def test_what_is_no_number_is_refused_by_the_name_of_the_setting(retries):
    with pytest.raises(InvalidOption, match=f"{RETRIES} is ") as refused:
        parse_statement_options({RETRIES: retries})
    assert refused.value.hint == f"SET {RETRIES} = 3"
