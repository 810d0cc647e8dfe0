"""A DAG for Airflow: jobs/maintain.py every night, with the provider apache-airflow-providers-apache-spark.

Copy it into the folder of DAGs. The workers of Airflow need spark-submit and lance-spark; the connection spark_default
names the cluster. The task runs once: the job's own exit codes say what went wrong, and each of them fails the task. A
retry helps for 12 (another process committed first) and 20 (the store did not answer), and does no harm for the others.
"""

from datetime import datetime, timedelta, timezone

from airflow import DAG
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

with DAG(
    "lance_maintenance",
    schedule="0 1 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,  # a run does what the missed ones left
    max_active_runs=1,
):
    SparkSubmitOperator(
        task_id="maintain",
        application="/opt/lance-spark/jobs/maintain.py",
        application_args=[
            "s3://my-bucket/lake",
            "--policy",
            "s3://my-bucket/maintenance/policy.toml",
            "--for",
            "4h",
            "--state",
            "s3://my-bucket/maintenance/state.json",
            "--report",
            "s3://my-bucket/maintenance/report.json",
            "--execute",
        ],
        conf={"spark.sql.session.timeZone": "UTC"},
        retries=1,
        retry_delay=timedelta(minutes=10),
        execution_timeout=timedelta(hours=6),
    )
