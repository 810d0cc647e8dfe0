"""Storage options: one set in pylance's spelling means the same to fsspec."""

import pytest

from lance_spark.core.storage_options import fsspec_options, settled_endpoint, split_storage

pytestmark = pytest.mark.pure

KEYS = {"key": "AKIA", "secret": "hush", "token": "t0k"}


def s3(storage=None, environment=None):
    return fsspec_options("s3", storage or {}, environment or {})


def test_storage_options_are_told_from_the_others_in_any_case():
    rest, storage = split_storage(
        {"branch": "b", "storage.AWS_Region": "eu", "Storage.allow_http": "True", "storage": "x", "storages.y": "z"}
    )
    assert rest == {"branch": "b", "storage": "x", "storages.y": "z"}
    assert storage == {"aws_region": "eu", "allow_http": "True"}


@pytest.mark.parametrize("prefix", ["aws_", "", "AWS_"])
def test_an_option_is_found_with_and_without_aws(prefix):
    names = {"access_key_id": "AKIA", "secret_access_key": "hush", "session_token": "t0k", "region": "eu-west-1"}
    arguments = s3({prefix + name: value for name, value in names.items()})
    assert arguments == {**KEYS, "client_kwargs": {"region_name": "eu-west-1"}}


def test_the_environment_serves_what_no_option_says():
    environment = {
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "AWS_SESSION_TOKEN": "t0k",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ENDPOINT": "",
        "aws_region": "not looked at",
    }
    assert s3({}, environment) == {**KEYS, "client_kwargs": {"region_name": "eu-west-1"}}
    assert s3({"aws_access_key_id": "OTHER"}, environment)["key"] == "OTHER"
    assert s3({"region": "us-east-1"}, environment)["client_kwargs"] == {"region_name": "us-east-1"}


@pytest.mark.parametrize("token", ["aws_session_token", "session_token", "aws_token", "token"])
def test_a_session_token_has_pylances_four_names(token):
    assert s3({token: "t0k"}) == {"token": "t0k"}


@pytest.mark.parametrize(
    "option", ["aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url", "aws_endpoint_url_s3"]
)
def test_an_endpoint_option_wins_over_the_general_environment(option):
    environment = {"AWS_ENDPOINT": "http://env", "AWS_ENDPOINT_URL": "http://env"}
    assert s3({option: "http://store"}, environment)["client_kwargs"]["endpoint_url"] == "http://store"


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_an_endpoint_comes_from_the_environment_where_no_option_has_one(variable):
    arguments = s3({}, {variable: "http://store"})
    assert arguments["client_kwargs"] == {"endpoint_url": "http://store"}
    assert arguments["config_kwargs"] == {"s3": {"addressing_style": "path"}}


@pytest.mark.parametrize(
    ("storage", "environment"),
    [
        ({}, {"AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_S3": "http://s3"}),
        ({}, {"AWS_ENDPOINT": "http://all", "AWS_ENDPOINT_URL_S3": "http://s3"}),
        ({"aws_endpoint": "http://all", "aws_endpoint_url_s3": "http://s3"}, {}),
        ({"aws_endpoint": "http://all"}, {"AWS_ENDPOINT_URL_S3": "http://s3"}),
        ({"aws_endpoint_url_s3": "http://s3"}, {"AWS_ENDPOINT": "http://all"}),
    ],
)
def test_the_endpoint_of_s3_alone_wins_as_it_does_in_pylance(storage, environment):
    assert s3(storage, environment)["client_kwargs"]["endpoint_url"] == "http://s3"


@pytest.mark.parametrize("word", ["true", "True", "1", "yes", "on", "y"])
def test_pylances_words_for_true_switch_style_and_signature(word):
    storage = {"aws_endpoint": "http://store", "aws_virtual_hosted_style_request": word, "skip_signature": word}
    arguments = s3(storage)
    assert arguments["config_kwargs"] == {"s3": {"addressing_style": "virtual"}}
    assert arguments["anon"] is True


@pytest.mark.parametrize("word", ["false", "0", "no", "off", ""])
def test_all_other_words_leave_path_style_and_signed_requests(word):
    arguments = s3({"endpoint": "http://store", "virtual_hosted_style_request": word, "aws_skip_signature": word})
    assert arguments["config_kwargs"] == {"s3": {"addressing_style": "path"}}
    assert "anon" not in arguments


def test_without_any_setting_fsspec_looks_for_itself():
    assert s3() == s3({"allow_http": "true", "timeout": "5s"}) == {}


@pytest.mark.parametrize("scheme", ["gs", "az", "abfss", "memory", "file"])
def test_other_stores_are_left_to_fsspec(scheme):
    assert fsspec_options(scheme, {"aws_access_key_id": "AKIA"}, {"AWS_ENDPOINT": "http://env"}) == {}


@pytest.mark.parametrize("name", ["aws_endpoint", "aws_endpoint_url", "endpoint", "ENDPOINT_URL"])
def test_a_given_endpoint_wins_over_the_environments_endpoint_for_s3(name):
    settled = settled_endpoint({name: "http://here", "aws_region": "x"})
    assert settled == {name: "http://here", "aws_region": "x", "aws_endpoint_url_s3": "http://here"}
    environment = {"AWS_ENDPOINT_URL_S3": "http://elsewhere"}
    assert fsspec_options("s3", settled, environment)["client_kwargs"]["endpoint_url"] == "http://here"


def test_no_endpoint_is_made_up():
    assert settled_endpoint({"aws_region": "x"}) == {"aws_region": "x"}
    assert settled_endpoint({"endpoint": "a", "aws_endpoint_url_s3": "b"})["aws_endpoint_url_s3"] == "b"
