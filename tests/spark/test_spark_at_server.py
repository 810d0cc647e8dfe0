"""Handles of a client of Spark Connect without access to the store: each verb runs on the server, or says what does."""

import inspect
import re

import pytest

from lance_spark import LanceCatalog, LanceTable
from lance_spark.errors import PermissionDenied
from lance_spark.spark import at_server_rules, constraints, frozen, lake, layout, maintenance, refs, streams
from lance_spark.sql import procedures  # noqa: F401 - declares them
from lance_spark.sql.declaring import PROCEDURES

pytestmark = pytest.mark.pure

CLASSES = {
    LanceTable: at_server_rules.TABLE,
    refs.Branches: at_server_rules.BRANCHES,
    refs.Tags: at_server_rules.TAGS,
    refs.Remotes: at_server_rules.REMOTES,
    maintenance.Indexes: at_server_rules.INDEXES,
    layout.LayoutVerbs: at_server_rules.LAYOUT,
    constraints.Constraints: at_server_rules.CONSTRAINTS,
    frozen.FrozenSets: at_server_rules.FROZEN,
    streams.Streams: at_server_rules.STREAMS,
    LanceCatalog: at_server_rules.CATALOG,
    lake.LakeBranches: at_server_rules.LAKE_BRANCHES,
    lake.LakeTags: at_server_rules.LAKE_TAGS,
}
ASK_NOTHING = {LanceCatalog: {"checkout", "connect", "spark"}}
CALL = re.compile(r"CALL lake\.system\.(\w+)\(([^)]*)\)")


def public(kind):
    found = {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}
    verbs = {
        name
        for name, value in found.items()
        if inspect.isfunction(value) or isinstance(value, property | staticmethod | classmethod)
    }
    mapping = {"get", "items", "keys", "values"}
    return verbs - mapping - set(at_server_rules.COLLECTIONS) - ASK_NOTHING.get(kind, set())


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_public_verb_has_its_statement_or_sentence(kind):
    assert set(CLASSES[kind]) == public(kind)


def test_the_procedures_and_their_arguments_exist():
    called = [found for verbs in CLASSES.values() for text in verbs.values() for found in CALL.findall(text)]
    assert len(called) > 25
    for name, arguments in called:
        parameters = {parameter.name for parameter in PROCEDURES[name].parameters}
        given = {part.split("=>")[0].strip() for part in arguments.split(",") if "=>" in part}
        assert given <= parameters, (name, given)


class Client:
    """Looks like a session of Spark Connect."""


Client.__module__ = "pyspark.sql.connect.session"


@refs.tells({"act": "CALL lake.system.act()", "size": "SELECT 1"})
class Thing:
    def __init__(self, spark):
        self.spark = spark

    def act(self):
        """Acts."""
        raise PermissionDenied("The store refused.", hint="Check the credentials.")

    @property
    def size(self):
        return self.act()


@pytest.mark.parametrize("verb", [lambda thing: thing.act(), lambda thing: thing.size])
def test_only_a_client_of_connect_is_told_the_statement(verb):
    with pytest.raises(PermissionDenied) as caught:
        verb(Thing(Client()))
    assert "This client of Spark Connect has no access to the store." in caught.value.hint
    assert caught.value.hint.endswith(("type: CALL lake.system.act()", "type: SELECT 1"))
    with pytest.raises(PermissionDenied) as caught:
        verb(Thing(object()))
    assert caught.value.hint == "Check the credentials."
    assert Thing.act.__doc__ == "Acts."
