"""Which cloud the settings name, and what is said when nobody is signed in."""

from __future__ import annotations

import pytest

from jupyter_tpu.cloud import CloudSettings, connect_cloud, settings_from_environment
from jupyter_tpu.errors import BadInput, CredentialsMissing


@pytest.mark.parametrize(
    ("endpoint", "is_emulated"),
    [
        ("", False),
        ("127.0.0.1:8470", True),
        ("localhost:8470", True),
        ("[::1]:8470", True),
        ("tpu.googleapis.com:443", False),
        ("127.0.0.1.evil.example:443", False),
        ("10.0.0.1:8470", False),
    ],
)
def test_only_a_loopback_endpoint_is_an_emulator(endpoint: str, is_emulated: bool) -> None:
    assert CloudSettings(endpoint=endpoint).is_emulated is is_emulated


@pytest.mark.parametrize(
    ("endpoint", "spelled"),
    [
        ("", ""),
        ("tpu.googleapis.com:443", ""),
        ("TPU.GoogleAPIs.com.:0443", ""),
        ("tpu.googleapis.com:444", "tpu.googleapis.com:444"),
        ("127.0.0.1:8470", "127.0.0.1:8470"),
        ("127.0.0.1:08470", "127.0.0.1:8470"),
        ("localhost:8470", "127.0.0.1:8470"),
        ("LocalHost.:8470", "127.0.0.1:8470"),
        ("[0:0:0:0:0:0:0:1]:8470", "[::1]:8470"),
        ("Proxy.Example:8470", "proxy.example:8470"),
    ],
)
def test_one_endpoint_has_one_spelling(endpoint: str, spelled: str) -> None:
    assert CloudSettings(endpoint=endpoint).endpoint == spelled
    assert CloudSettings(endpoint=spelled) == CloudSettings(endpoint=endpoint)


@pytest.mark.parametrize("endpoint", ["localhost", "http://127.0.0.1:1", ":80", "127.0.0.1:", "a:b", "a:²"])
def test_a_malformed_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(BadInput, match="is not a valid endpoint") as refused:
        CloudSettings(endpoint=endpoint)
    assert "HOST:PORT" in refused.value.hint


def test_settings_come_from_the_environment() -> None:
    found = settings_from_environment({"JUPYTER_TPU_PROJECT": " my-project ", "JUPYTER_TPU_ENDPOINT": "127.0.0.1:1"})
    assert found == CloudSettings(project="my-project", endpoint="127.0.0.1:1")
    assert settings_from_environment({}) == CloudSettings()


async def test_without_credentials_the_command_to_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent")
    with pytest.raises(CredentialsMissing) as refused:
        await connect_cloud(CloudSettings(project="my-project"))
    assert "gcloud auth application-default login" in refused.value.hint
    assert "jupyter tpu demo" in refused.value.hint


async def test_the_number_of_a_project_is_not_taken_for_its_id() -> None:
    with pytest.raises(BadInput, match="123456789012 is a project number; jupyter_tpu needs the project ID"):
        await connect_cloud(CloudSettings(project="123456789012", endpoint="127.0.0.1:1"))


async def test_without_a_project_the_ways_to_name_one_are_told() -> None:
    with pytest.raises(BadInput, match="No Google Cloud project is selected") as refused:
        await connect_cloud(CloudSettings(endpoint="127.0.0.1:1"))
    assert "--project" in refused.value.hint
