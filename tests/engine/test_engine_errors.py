"""Errors of tasks: where the store failed, and what to set there."""

import pytest

from lance_spark.engine.local import of_executor, told
from lance_spark.engine.workers_spark import plainly
from lance_spark.errors import Conflict, NotFound, PermissionDenied, StorageFailure, StorageFull
from lance_spark.storage.datasets import locate
from lance_spark.storage.failures import from_pylance

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("kind", [StorageFailure, PermissionDenied])
@pytest.mark.parametrize("hint", [None, "Check the endpoint."])
def test_a_store_that_failed_an_executor_is_told_as_such(kind, hint):
    made = of_executor(kind("The store refused access to s3://b/x.", hint))
    assert type(made) is kind
    assert made.message == "On an executor: The store refused access to s3://b/x."
    assert "spark.executorEnv.AWS_ACCESS_KEY_ID" in made.hint
    assert (hint or "") in made.hint
    assert of_executor(made) is made


def test_an_executor_without_credentials_is_not_told_to_set_the_variables_that_the_driver_has():
    """The hint said that executors do not see the environment, and then to set variables in the environment."""
    failure = from_pylance(OSError("Unable to locate credentials"), locate("s3://b/x"), "reading")
    assert "in the environment" in failure.hint
    made = of_executor(failure)
    assert made.message.startswith("On an executor: There are no credentials for s3://b/x")
    assert "spark.executorEnv.AWS_ACCESS_KEY_ID" in made.hint
    assert "in the environment" not in made.hint


@pytest.mark.parametrize("problem", [NotFound("gone"), Conflict("late"), StorageFull("full")])
def test_other_errors_stay_as_they_are(problem):
    assert of_executor(problem) is problem


@pytest.mark.parametrize("worker", [False, True])
def test_a_row_of_a_report_has_the_hint_and_the_place(monkeypatch, worker):
    if worker:
        monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "x")
    else:
        monkeypatch.delenv("PYTHON_WORKER_FACTORY_SECRET", raising=False)
    said = told(StorageFailure("The region is unknown.", "Set it."))
    assert said.startswith("On an executor: The region") is worker
    assert said.endswith("Set it.")
    assert told(NotFound("gone")) == "gone"


@pytest.mark.parametrize(
    "problem",
    [
        StorageFailure("Failed to resolve region for bucket 'b'.", "Check the endpoint, the region."),
        PermissionDenied("There are no credentials for s3://b/x.", None),
    ],
    ids=["region", "credentials"],
)
def test_a_write_that_fails_in_a_task_says_that_it_was_on_an_executor(monkeypatch, problem):
    """CREATE TABLE AS with credentials on the driver only named the region, as if the driver's settings were wrong."""
    with pytest.raises(type(problem)) as here, plainly():
        raise problem
    assert here.value is problem
    monkeypatch.setattr("pyspark.taskcontext.TaskContext.get", lambda: object())
    with pytest.raises(type(problem)) as raised, plainly():
        raise problem
    assert raised.value.message == f"On an executor: {problem.message}"
    assert "spark.executorEnv" in raised.value.hint
    assert raised.value.hint.endswith(problem.hint or "of their machines.")
    assert "--run-on local" not in raised.value.hint  # a write of a DataFrame has nowhere else to run
    with pytest.raises(type(problem), match="--run-on local"), plainly(may_stay=True):
        raise problem
    with pytest.raises(NotFound) as absent, plainly():
        raise NotFound("There is no table.")
    assert absent.value.message == "There is no table."


def test_the_permission_that_is_missing_stays_in_the_error():
    denied = PermissionDenied("Not allowed.", None)
    denied.missing, denied.before_commit = "s3:PutObject on s3://b/x", True
    assert (of_executor(denied).missing, of_executor(denied).before_commit) == (denied.missing, True)
