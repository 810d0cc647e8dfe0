"""What is told of a denied request: from what pylance, botocore and stores themselves say of it."""

import pytest

from lance_spark.core.location import DatasetLocation
from lance_spark.errors import Conflict, PermissionDenied, Refused, StorageFailure, may_have_happened
from lance_spark.storage.failures import denial, from_fsspec, from_pylance, refusal_of
from lance_spark.storage.vended import Refusal

S3, GS, AZ = (DatasetLocation.at(f"{scheme}://b/lake/x.lance") for scheme in ("s3", "gs", "az"))
BY_PYLANCE = (
    "LanceError(IO): single PUT of lake/x.lance/{path} failed after 1ms: The operation lacked the necessary privileges "
    "to complete for path lake/x.lance/{path}: Error performing {method} http://h/b/lake/x.lance/{path} in 1ms{again} "
    "- Server returned non-2xx status code: 403 Forbidden: AccessDenied: Told so"
)
BY_BOTOCORE = "PermissionError: An error occurred (AccessDenied) when calling the {operation} operation: Access Denied"
BY_AWS = (
    "ClientError: An error occurred (AccessDenied) when calling the PutObject operation: User: arn:aws:iam::1:user/a "
    'is not authorized to perform: s3:PutObject on resource: "arn:aws:s3:::b/lake/x.lance/_refs/tags/v1.json" because '
    "no identity-based policy allows the s3:PutObject action"
)


def by_pylance(path, method="PUT", again=""):
    return BY_PYLANCE.format(path=path, method=method, again=again)


@pytest.mark.parametrize(
    ("location", "text", "path", "told"),
    [
        (S3, by_pylance("_refs/tags/v1.json"), None, "s3:PutObject on s3://b/lake/x.lance/_refs/tags/"),
        (S3, by_pylance("tree/exp/data/0.lance"), None, "s3:PutObject on s3://b/lake/x.lance/tree/exp/data/"),
        (S3, by_pylance("_indices/1-2/page.lance"), None, "s3:PutObject on s3://b/lake/x.lance/_indices/"),
        (S3, by_pylance("_refs/branches/exp%2Fa.json"), None, "s3:PutObject on s3://b/lake/x.lance/_refs/branches/"),
        (S3, by_pylance("data/0.lance", "GET"), None, "s3:GetObject on s3://b/lake/x.lance/data/"),
        (S3, by_pylance("data/0.lance", "DELETE"), None, "s3:DeleteObject on s3://b/lake/x.lance/data/"),
        (GS, by_pylance("_versions/1.manifest"), None, "storage.objects.create on gs://b/lake/x.lance/_versions/"),
        (AZ, by_pylance("_versions/1.manifest"), None, "blobs/write on az://b/lake/x.lance/_versions/"),
        (
            S3,
            "LanceError(IO): Generic S3 error: DeleteObjects request failed for key lake/x.lance/_refs/tags/v.json: "
            "Access Denied. (code: AccessDenied)",
            None,
            "s3:DeleteObject on s3://b/lake/x.lance/_refs/tags/",
        ),
        (
            S3,
            "Error performing GET http://h:1/b?list-type=2&prefix=lake%2Fx.lance%2F_versions%2F in 1ms - Server "
            "returned non-2xx status code: 403 Forbidden: AccessDenied",
            None,
            "s3:ListBucket on s3://b",
        ),
        (
            S3,
            BY_BOTOCORE.format(operation="PutObject"),
            "_cleanup/7/_plan.json",
            "s3:PutObject on s3://b/lake/x.lance/_cleanup/",
        ),
        (S3, BY_BOTOCORE.format(operation="CopyObject"), "data/0.lance", "s3:PutObject on s3://b/lake/x.lance/data/"),
        (S3, BY_BOTOCORE.format(operation="HeadObject"), "data/0.lance", "s3:GetObject on s3://b/lake/x.lance/data/"),
        (S3, BY_BOTOCORE.format(operation="DeleteObject"), None, "s3:DeleteObject on s3://b/lake/x.lance/"),
        (S3, BY_BOTOCORE.format(operation="ListObjectsV2"), "_refs", "s3:ListBucket on s3://b"),
        (S3, BY_AWS, None, "s3:PutObject on s3://b/lake/x.lance/_refs/tags/"),
    ],
)
def test_the_permission_and_the_prefix_are_named(location, text, path, told):
    assert str(denial(text, location, path)) == told


@pytest.mark.parametrize(
    "text",
    [
        "An error occurred (InvalidAccessKeyId) when calling the PutObject operation: 403 Forbidden",
        "An error occurred (ExpiredToken) when calling the GetObject operation: AccessDenied",
        "SignatureDoesNotMatch: 403 Forbidden when calling the PutObject operation",
        "An error occurred (InternalError) when calling the PutObject operation: sorry",
        "403 Forbidden",
    ],
)
def test_credentials_that_are_not_taken_and_other_failures_are_no_missing_permission(text):
    assert denial(text, S3) is None


@pytest.mark.parametrize(
    "text",
    [
        "An error occurred (RequestTimeTooSkewed) when calling the PutObject operation: 403 Forbidden",
        by_pylance("_versions/1.manifest") + ": RequestTimeTooSkewed",
    ],
)
def test_a_clock_that_is_off_is_told_as_that(text):
    error = from_pylance(OSError(text), S3, "committing")
    assert isinstance(error, PermissionDenied)
    assert error.missing is None
    assert "clock" in error.message
    assert "Set the clock" in error.hint


def test_a_path_on_a_disk_has_no_permissions_of_a_store():
    assert (
        denial("Permission denied (os error 13) when calling the PutObject operation", DatasetLocation.at("/x")) is None
    )


def test_errors_carry_what_is_missing_and_what_the_store_said():
    error = from_pylance(OSError(by_pylance("_refs/tags/v1.json")), S3, "creating tag 'v1'")
    assert isinstance(error, PermissionDenied)
    assert error.missing == "s3:PutObject on s3://b/lake/x.lance/_refs/tags/"
    assert error.message.startswith(
        f"The store denied access to {S3.uri} while creating tag 'v1': {error.missing} is missing."
    )
    assert "the page 'Permissions' of the documentation" in error.hint
    explained = from_fsspec(PermissionError(BY_AWS), S3, "x")
    assert "because no identity-based policy allows" in explained.message


@pytest.mark.parametrize(
    ("text", "may"),
    [
        (by_pylance("_versions/1.manifest"), False),
        (by_pylance("tree/exp/_transactions/1.txn"), False),
        (by_pylance("_versions/1.manifest", again=", after 2 retries, max_retries: 10"), True),
        (by_pylance("_versions/1.manifest", "GET"), True),
        (by_pylance("_refs/branches/exp.json"), True),
        ("403 Forbidden", True),
        ("connection reset", True),
    ],
)
def test_only_a_commit_that_was_surely_refused_has_not_happened(text, may):
    """A request that is asked again may have arrived the first time."""
    error = from_pylance(OSError(text), S3, "committing")
    assert isinstance(error, StorageFailure)
    assert may_have_happened(error) is may
    assert not may_have_happened(Conflict("another one was faster"))


def test_the_first_one_who_knows_the_outcome_is_believed():
    error = from_pylance(OSError(by_pylance("_versions/1.manifest")), S3, "committing")
    said = error.saying("Files are left.").saying("Nothing was changed.")
    assert said.message.endswith("Files are left.")
    assert (said.missing, said.hint, said.before_commit) == (error.missing, error.hint, True)


def test_more_text_than_a_batch_holds_has_a_way_out():
    text = "LanceError(Arrow): Offset overflow error: 2162688000, /home/me/rust/field.rs:922:21"
    error = from_pylance(OSError(text), S3, "scanning")
    assert isinstance(error, Refused)
    assert "batch_size" in error.hint


HEAD = "Error performing HEAD http://h/b/x in 1ms - Server returned non-2xx status code: {}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("An error occurred (ExpiredToken) when calling the GetObject operation: Told so", Refusal.EXPIRED),
        ("status code: 400 Bad Request: ExpiredToken: Told so", Refusal.EXPIRED),
        ("An error occurred (InvalidAccessKeyId) when calling the GetObject operation", Refusal.KEY),
        (HEAD.format("400 Bad Request: "), Refusal.KEY),
        ("An error occurred (400) when calling the HeadObject operation: Bad Request", Refusal.KEY),
        (HEAD.format("403 Forbidden: "), Refusal.RIGHTS),
        (by_pylance("data/0.lance"), Refusal.RIGHTS),
        (BY_BOTOCORE.format(operation="PutObject"), Refusal.RIGHTS),
        ("status code: 403 Forbidden: RequestTimeTooSkewed: Told so", None),
        (HEAD.format("404 Not Found: "), None),
        ("Error performing GET http://h/b/x in 1ms - Server returned non-2xx status code: 400 Bad Request: ", None),
        ("Error performing GET http://h/b/x in 1ms - Server returned non-2xx status code: 500", None),
    ],
)
def test_a_refused_key_is_told_from_rights_that_are_missing(text, why):
    assert refusal_of(text) is why


@pytest.mark.parametrize(
    ("options", "text", "kind", "says"),
    [
        ({}, "ExpiredToken: Told so", PermissionDenied, "have expired"),
        ({"token_provider": "a:b"}, "ExpiredToken: Told so", PermissionDenied, "refused before their time"),
        ({"token_provider": "a:b"}, HEAD.format("400 Bad Request: "), PermissionDenied, "refused before their time"),
        ({}, HEAD.format("400 Bad Request: "), StorageFailure, "could not be reached"),
    ],
)
def test_a_refused_key_is_an_error_that_says_so(options, text, kind, says):
    location = DatasetLocation.at("s3://b/lake/x.lance", options)
    told = from_pylance(OSError(f"Generic S3 error: {text}"), location, "reading")
    assert type(told) is kind
    assert says in told.message
