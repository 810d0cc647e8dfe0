"""What people paste from conf/ for the maintenance is well-formed, and jobs/maintain.py understands it."""

import ast
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from support.scripts import script

from lance_spark.core.declared import at
from lance_spark.maintenance.policy_rules import _RULES, STEPS, parse_maintenance

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
KEYS = {step: {each.key for each in at(rule, "file")} for step, rule in _RULES.items()}
SCRIPT = "s3://my-bucket/jobs/maintain.py"


def load(name):
    return json.loads((CONF / name).read_text())


def scheduled(name):
    return json.loads(load(name)["Target"]["Input"])


def after_script(arguments):
    return arguments[arguments.index(SCRIPT) + 1 :]


def bundle(name="maintenance-databricks.yml"):
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((CONF / name).read_text())


def cron():
    (line,) = (line for line in (CONF / "maintenance.cron").read_text().splitlines() if "spark-submit" in line)
    words = shlex.split(line)
    return words[words.index("/opt/lance-spark/jobs/maintain.py") + 1 :]


def airflow():
    """What the DAG submits, and with which arguments."""
    tree = ast.parse((CONF / "maintenance-airflow.py").read_text())
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
    (submit,) = (call for call in calls if getattr(call.func, "id", "") == "SparkSubmitOperator")
    given = {word.arg: word.value for word in submit.keywords}
    return ast.literal_eval(given["application"]), ast.literal_eval(given["application_args"])


def kubernetes():
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((CONF / "maintenance-kubernetes.yaml").read_text())["spec"]["jobTemplate"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    return container


COMMAND_LINES = {
    "serverless": lambda: load("maintenance-emr-serverless-job.json")["jobDriver"]["sparkSubmit"][
        "entryPointArguments"
    ],
    "serverless schedule": lambda: scheduled("maintenance-emr-serverless-schedule.json")["JobDriver"]["SparkSubmit"][
        "EntryPointArguments"
    ],
    "step": lambda: after_script(load("maintenance-emr-step.json")[0]["Args"]),
    "step schedule": lambda: after_script(
        scheduled("maintenance-emr-step-schedule.json")["Steps"][0]["HadoopJarStep"]["Args"]
    ),
    "databricks": lambda: bundle()["resources"]["jobs"]["lance_maintenance"]["tasks"][0]["spark_python_task"][
        "parameters"
    ],
    "cron": cron,
    "airflow": lambda: airflow()[1],
    "kubernetes": lambda: kubernetes()["args"],
}


@pytest.fixture(scope="module")
def job():
    return script("jobs/maintain.py")


@pytest.mark.parametrize("source", COMMAND_LINES)
def test_the_job_understands_every_command_line(source, job):
    arguments = job.parser().parse_args(COMMAND_LINES[source]())
    assert arguments.execute
    assert all((arguments.policy, arguments.state, arguments.report, arguments.time))


@pytest.mark.parametrize(
    ("service", "operation", "request_of"),
    [
        (
            "emr-serverless",
            "StartJobRun",
            lambda: {"clientToken": "token", **load("maintenance-emr-serverless-job.json")},
        ),
        ("scheduler", "CreateSchedule", lambda: load("maintenance-emr-serverless-schedule.json")),
        ("scheduler", "CreateSchedule", lambda: load("maintenance-emr-step-schedule.json")),
        ("emr", "AddJobFlowSteps", lambda: scheduled("maintenance-emr-step-schedule.json")),
    ],
)
def test_they_are_requests_that_the_platform_takes(service, operation, request_of):
    botocore = pytest.importorskip("botocore.session")
    from botocore.validate import ParamValidator

    shape = botocore.get_session().get_service_model(service).operation_model(operation).input_shape
    report = ParamValidator().validate(request_of(), shape)
    assert not report.has_errors(), report.generate_report()


def test_schedules_run_what_the_files_beside_them_run():
    assert COMMAND_LINES["serverless"]() == COMMAND_LINES["serverless schedule"]()
    step = load("maintenance-emr-step.json")[0]
    (planned,) = scheduled("maintenance-emr-step-schedule.json")["Steps"]
    assert planned["HadoopJarStep"] == {"Jar": step["Jar"], "Args": step["Args"]}
    both = [load(name)["jobDriver"]["sparkSubmit"] for name in (PLAIN, f"maintenance-{PLAIN}")]
    assert both[0]["sparkSubmitParameters"] == both[1]["sparkSubmitParameters"]


PLAIN = "emr-serverless-job.json"


def test_the_bundle_is_whole():
    loaded = bundle()
    for target in loaded["targets"].values():
        assert set(target["variables"]) == set(loaded["variables"])
    task = loaded["resources"]["jobs"]["lance_maintenance"]["tasks"][0]
    assert (ROOT / task["spark_python_task"]["python_file"]).is_file()
    assert loaded["artifacts"] == bundle("databricks.yml")["artifacts"]


def test_the_example_policy_has_every_word():
    text = (CONF / "maintenance-policy.toml").read_text()
    policy = parse_maintenance(text)
    given = tomllib.loads(text)
    assert set(given) == {"skip", *STEPS, "branches", "tables"}
    orders = {"sort_by", "zorder"}  # of single tables
    assert {step: set(given[step]) for step in KEYS} == {step: keys - orders for step, keys in KEYS.items()}
    assert policy.for_table("ns1.flights").for_branch(None).compaction.sort_by == ("day", "carrier")
    flights = policy.for_table("ns1.flights")
    assert flights.for_branch(None).indexes.stale_rows == 100_000
    assert flights.for_branch("import/x").compaction.small_fragments == 100
    assert (flights.cleanup.older_than.days, flights.cleanup.retain_versions) == (30, 10)
    assert policy.for_table("archive.a").skip == {"compaction", "expiry", "cleanup"}


def test_the_page_has_every_option_of_the_job(job):
    page = (ROOT / "docs" / "operations" / "maintenance-job.md").read_text()
    documented = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", page)) - {"--properties-file"}
    assert documented == {option for action in job.parser()._actions for option in action.option_strings} - {"-h"}


def test_the_page_has_every_word_of_a_policy():
    page = (ROOT / "docs" / "operations" / "maintenance-job.md").read_text()
    assert [word for keys in KEYS.values() for word in keys if f"`{word}`" not in page] == []
