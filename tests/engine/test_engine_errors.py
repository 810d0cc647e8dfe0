"""Errors of tasks: where the store failed, and what to set there."""

import pytest

from lance_spark.engine.local import of_executor, told
from lance_spark.errors import Conflict, NotFound, PermissionDenied, StorageFailure, StorageFull

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("kind", [StorageFailure, PermissionDenied])
@pytest.mark.parametrize("hint", [None, "Check the endpoint."])
def test_a_store_that_failed_an_executor_is_told_as_such(kind, hint):
    made = of_executor(kind("There are no credentials for s3://b/x.", hint))
    assert type(made) is kind
    assert made.message == "On an executor: There are no credentials for s3://b/x."
    assert "spark.executorEnv.AWS_ACCESS_KEY_ID" in made.hint
    assert (hint or "") in made.hint
    assert of_executor(made) is made


@pytest.mark.parametrize("problem", [NotFound("gone"), Conflict("late"), StorageFull("full")])
def test_other_errors_stay_as_they_are(problem):
    assert of_executor(problem) is problem


@pytest.mark.parametrize("worker", [False, True])
def test_a_row_of_a_report_has_the_hint_and_the_place(monkeypatch, worker):
    if worker:
        monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "x")
    else:
        monkeypatch.delenv("PYTHON_WORKER_FACTORY_SECRET", raising=False)
    said = told(StorageFailure("There are no credentials.", "Set them."))
    assert said.startswith("On an executor: There are no") is worker
    assert said.endswith("Set them.")
    assert told(NotFound("gone")) == "gone"
