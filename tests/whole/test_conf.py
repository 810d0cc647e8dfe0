"""What people paste from conf/ is well-formed, fits the platforms' interfaces, and jobs/cleanup.py understands it."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.scripts import script

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.pure

BUILD = "python3 -m pip wheel --no-deps --wheel-dir dist ."
"""The ordinary wheel, which brings no second Spark: on Databricks, one from PyPI ends the session."""

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
CLEANUP = ROOT / "jobs" / "cleanup.py"
ARCHIVE = "s3://my-bucket/environments/lance-spark-environment.tar.gz#environment"
INTERPRETER = "./environment/bin/python"

each_script = pytest.mark.parametrize("path", sorted(CONF.glob("*.sh")), ids=lambda path: path.name)


def load(name):
    return json.loads((CONF / name).read_text())


def bundle():
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((CONF / "databricks.yml").read_text())


def bundle_tasks():
    return {name: job["tasks"][0] for name, job in bundle()["resources"]["jobs"].items()}


def spark_python_arguments(name):
    return bundle_tasks()[name]["spark_python_task"]["parameters"]


def after_script(arguments):
    return arguments[arguments.index("s3://my-bucket/jobs/cleanup.py") + 1 :]


def scheduled(name):
    return json.loads(load(name)["Target"]["Input"])


COMMAND_LINES = {
    "emr-serverless-job.json": lambda: load("emr-serverless-job.json")["jobDriver"]["sparkSubmit"][
        "entryPointArguments"
    ],
    "emr-serverless-schedule.json": lambda: scheduled("emr-serverless-schedule.json")["JobDriver"]["SparkSubmit"][
        "EntryPointArguments"
    ],
    "emr-step.json": lambda: after_script(load("emr-step.json")[0]["Args"]),
    "emr-step-schedule.json": lambda: after_script(
        scheduled("emr-step-schedule.json")["Steps"][0]["HadoopJarStep"]["Args"]
    ),
    "databricks.yml lance_cleanup": lambda: spark_python_arguments("lance_cleanup"),
    "databricks.yml lance_cleanup_serverless": lambda: spark_python_arguments("lance_cleanup_serverless"),
}


@pytest.fixture(scope="module")
def job_parser():
    return script("jobs/cleanup.py").parser()


@pytest.mark.parametrize("source", COMMAND_LINES)
def test_the_job_understands_every_command_line(source, job_parser):
    arguments = COMMAND_LINES[source]()
    assert "--execute" in arguments
    job_parser.parse_args(arguments)  # exits where it does not know an option or a value


def test_the_job_knows_every_option_that_comments_and_the_readme_show(job_parser):
    files = [path for path in CONF.iterdir() if path.is_file()]
    lines = [line for path in files for line in path.read_text().splitlines() if "jobs/cleanup.py " in line]
    shown = {option for line in lines for option in re.findall(r"--[a-z][a-z-]*", line.split("jobs/cleanup.py ", 1)[1])}
    assert {"--execute", "--policy"} <= shown
    assert shown <= {option for action in job_parser._actions for option in action.option_strings}


def test_the_page_about_cleanup_has_every_option_of_the_job(job_parser):
    pages = ("operations/cleanup.md", "reference/cleanup-options.md")
    text = "".join((ROOT / "docs" / page).read_text() for page in pages)
    documented = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) - {"--properties-file"}
    assert documented == {option for action in job_parser._actions for option in action.option_strings} - {"-h"}


def check_request(service, operation, request):
    botocore = pytest.importorskip("botocore.session")
    from botocore.validate import ParamValidator

    shape = botocore.get_session().get_service_model(service).operation_model(operation).input_shape
    report = ParamValidator().validate(request, shape)
    assert not report.has_errors(), report.generate_report()


def lower_camel(value):
    """The names of EMR Serverless' own interface for those that EventBridge Scheduler takes."""
    if isinstance(value, dict):
        return {key[0].lower() + key[1:]: lower_camel(item) for key, item in value.items()}
    return [lower_camel(item) for item in value] if isinstance(value, list) else value


def test_the_serverless_job_is_a_request_that_emr_serverless_takes():
    # The command line tool adds the token.
    check_request("emr-serverless", "StartJobRun", {"clientToken": "token", **load("emr-serverless-job.json")})


@pytest.mark.parametrize("name", ["emr-serverless-schedule.json", "emr-step-schedule.json"])
def test_the_schedules_are_requests_that_eventbridge_scheduler_takes(name):
    check_request("scheduler", "CreateSchedule", load(name))


def test_the_serverless_schedule_runs_the_serverless_job():
    target = load("emr-serverless-schedule.json")["Target"]
    request = lower_camel(scheduled("emr-serverless-schedule.json"))
    assert target["Arn"] == "arn:aws:scheduler:::aws-sdk:emrserverless:startJobRun"
    assert (
        request.pop("clientToken") == "<aws.scheduler.execution-id>"
    )  # the same token every night would start one run
    assert request == load("emr-serverless-job.json")


def test_the_step_schedule_runs_the_step():
    target = load("emr-step-schedule.json")["Target"]
    request = scheduled("emr-step-schedule.json")
    step = dict(load("emr-step.json")[0])
    assert target["Arn"] == "arn:aws:scheduler:::aws-sdk:emr:addJobFlowSteps"
    check_request("emr", "AddJobFlowSteps", request)
    assert step.pop("Type") == "CUSTOM_JAR"
    assert request["Steps"] == [{"HadoopJarStep": {"Jar": step.pop("Jar"), "Args": step.pop("Args")}, **step}]


def settings(words):
    pairs = [words[index + 1] for index, word in enumerate(words) if word == "--conf"]
    return dict(pair.split("=", 1) for pair in pairs)


def test_driver_and_executors_on_emr_run_the_packed_interpreter():
    submit = load("emr-serverless-job.json")["jobDriver"]["sparkSubmit"]["sparkSubmitParameters"]
    assert settings(shlex.split(submit)) == {
        "spark.archives": ARCHIVE,
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": INTERPRETER,
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": INTERPRETER,
        "spark.executorEnv.PYSPARK_PYTHON": INTERPRETER,
    }
    step = load("emr-step.json")[0]["Args"]
    assert step[step.index("--archives") + 1] == ARCHIVE
    assert settings(step) == {
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": INTERPRETER,
        "spark.yarn.appMasterEnv.PYSPARK_DRIVER_PYTHON": INTERPRETER,
        "spark.executorEnv.PYSPARK_PYTHON": INTERPRETER,
    }


def test_the_bundle_runs_the_job_from_the_repository_with_the_wheel():
    loaded, tasks = bundle(), bundle_tasks()
    cluster, serverless = tasks["lance_cleanup"], tasks["lance_cleanup_serverless"]
    for task in tasks.values():
        assert (ROOT / task["spark_python_task"]["python_file"]) == CLEANUP
        assert Path(task["spark_python_task"]["python_file"]).parent.name in loaded["sync"]["paths"]
    jobs = loaded["resources"]["jobs"]
    environment = jobs["lance_cleanup_serverless"]["environments"][0]
    assert environment["environment_key"] == serverless["environment_key"]
    assert environment["spec"]["dependencies"] == [cluster["libraries"][0]["whl"]] == ["./dist/*.whl"]
    assert jobs["lance_cleanup"]["job_clusters"][0]["job_cluster_key"] == cluster["job_cluster_key"]
    assert loaded["artifacts"]["wheel"] == {"type": "whl", "path": ".", "build": BUILD}


def test_every_target_of_the_bundle_says_where_the_dataset_is():
    loaded = bundle()
    assert set(loaded["targets"]) == {"dev", "prod"}
    for target in loaded["targets"].values():
        assert set(target["variables"]) == set(loaded["variables"])
    assert {spark_python_arguments(name)[0] for name in bundle_tasks()} == {
        f"${{var.{name}}}" for name in loaded["variables"]
    }


def test_the_example_policy_has_the_keys_that_a_policy_has():
    policy = tomllib.loads((CONF / "cleanup-policy.toml").read_text())
    rules, tags = policy.pop("branches"), policy.pop("tags")
    versions = {"older_than", "retain_versions", "commit_window", "undo_window", "keep_fork_versions"} | {"on_tagged"}
    files = {"unverified_age", "delete_unverified", "clones", "clones_from", "known_bases"}
    assert set(policy) == versions | files
    rule_keys = {"older_than", "before_version", "retain_versions", "versions"}
    assert "exp/*" in rules
    assert {key for rule in rules.values() for key in rule} == rule_keys
    assert {policy["on_tagged"], *tags.values()} == {"error", "keep"}


def spark_defaults():
    lines = (CONF / "spark-defaults.conf").read_text().splitlines()
    return [line.split(None, 1) for line in lines if line and not line.startswith("#")]


def test_spark_defaults_set_each_key_once():
    pairs = spark_defaults()
    assert all(len(pair) == 2 and pair[0].startswith("spark.") for pair in pairs)
    assert len({key for key, _ in pairs}) == len(pairs)


@pytest.mark.parametrize(
    ("option", "hidden"),
    [
        ("storage.aws_access_key_id", True),
        ("storage.aws_secret_access_key", True),
        ("storage.aws_session_token", True),
        ("storage.azure_storage_account_key", True),
        ("storage.google_service_account", True),
        ("storage.aws_region", False),
    ],
)
def test_spark_defaults_hide_credentials_and_nothing_else(option, hidden):
    pattern = dict(spark_defaults())["spark.redaction.regex"]
    assert bool(re.search(pattern, option)) is hidden


def test_names_and_accounts_are_placeholders():
    for path in CONF.iterdir():
        text = path.read_text()
        assert set(re.findall(r"s3://([^/\s\"']+)", text)) <= {"my-bucket"}, path.name
        assert not re.search(r"\b\d{12}\b|AKIA", text), path.name


@each_script
def test_the_scripts_are_programs_that_bash_can_read(path):
    assert path.stat().st_mode & 0o111
    checked = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_every_file_is_in_the_readme():
    listed = set(re.findall(r"^\| `([^`]+)` \|", (CONF / "README.md").read_text(), re.MULTILINE))
    assert listed == {path.name for path in CONF.iterdir()} - {"README.md"}
