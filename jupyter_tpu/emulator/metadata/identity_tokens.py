"""Identity tokens of workers, for services that require an OpenID token.

The tokens are signed with a key of this process, so a check against Google's certificates rejects them.
"""

from __future__ import annotations

import functools
import time
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import crypt, jwt

from jupyter_tpu.emulator.metadata.facts import WorkerFacts
from jupyter_tpu.emulator.resources.behaviours import documented

ISSUER = "https://accounts.google.com"
LIFETIME_S = 3600  # Google's ID tokens are valid for an hour


@documented(
    "identity-token",
    "The identity endpoint requires an audience and returns a signed JWT; format=full adds the instance to its claims.",
    source="cloud.google.com/compute/docs/instances/verifying-instance-identity",
)
def identity_token(facts: WorkerFacts, audience: str, *, is_full: bool) -> str:
    """Return a JWT of the worker's service account. The first call blocks briefly to generate the key."""
    now = int(time.time())
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "aud": audience,
        # the claims of Compute Engine's tokens: subject and party are the VM
        "azp": str(facts.instance_id),
        "sub": str(facts.instance_id),
        "email": facts.email,
        "email_verified": True,
        "iat": now,
        "exp": now + LIFETIME_S,
    }
    if is_full:
        claims["google"] = {"compute_engine": _instance(facts)}
    encode: Any = jwt.encode
    return bytes(encode(_signer(), claims)).decode()


def _instance(facts: WorkerFacts) -> dict[str, Any]:
    return {
        "instance_creation_timestamp": facts.node.create_time.seconds,
        "instance_id": str(facts.instance_id),
        "instance_name": facts.hostname,
        "project_id": facts.project,
        "project_number": int(facts.project_number),
        "zone": facts.zone,
    }


@functools.cache
def _signer() -> Any:
    # 2048 bits, like Google's keys; created once per process, because it takes a moment
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    signer: Any = crypt.RSASigner
    return signer.from_string(text.decode(), key_id="emulated")
