"""Access policies of S3, enforced by the proxy in front of the store: who a request is from tells its access key.

Policies are read and matched by moto's own code. moto's server could enforce them as well, but it asks for the right to
delete a whole bucket where a request deletes several keys, while S3 asks for each key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.iam.policy_validation import IAMPolicyDocumentValidator

from support.faulty_store import Request, Rule

Policy = Mapping[str, Any]


def enforced(policies: Mapping[str, Policy]) -> Rule:
    """A rule that denies whatever the policy of the request's access key does not allow; other keys may do all."""
    for policy in policies.values():
        IAMPolicyDocumentValidator(json.dumps(policy)).validate()
    known = {key: IAMPolicy({"policy_document": json.dumps(policy)}) for key, policy in policies.items()}

    def rule(request: Request) -> str | None:
        policy = known.get(request.access_key)
        if policy is None:
            return None
        action = action_of(request)
        resource = f"arn:aws:s3:::{request.bucket}" + ("" if action == "s3:ListBucket" else f"/{request.key}")
        if policy.is_action_permitted(action, resource) == PermissionResult.PERMITTED:
            return None
        # S3 refuses one key of many inside of an answer that succeeds.
        return "error AccessDenied" if request.batched else "403 AccessDenied"

    return rule


def action_of(request: Request) -> str:
    """The permission that S3 asks for."""
    if request.listing or not request.key:
        return "s3:ListBucket"
    if request.ends_upload:
        return "s3:AbortMultipartUpload"
    return {"PUT": "s3:PutObject", "POST": "s3:PutObject", "DELETE": "s3:DeleteObject"}.get(
        request.method, "s3:GetObject"
    )
