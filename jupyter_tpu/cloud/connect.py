"""Connect to the cloud specified in the settings."""

from __future__ import annotations

import asyncio
import importlib

from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.cloud.settings import CloudSettings


async def connect_cloud(settings: CloudSettings) -> CloudApi:
    """Connect to Google Cloud or an emulator, without making a call yet.

    Raises:
        CredentialsMissing: there are no credentials (never for an emulator).
        BadInput: neither the settings nor the credentials specify a project, or the project is given as a number.
    """
    # Importing Google's client takes more than a second, which must not delay Jupyter Server's start or block its event
    # loop.
    google = await asyncio.to_thread(importlib.import_module, "jupyter_tpu.cloud.google")
    cloud: CloudApi = await google.connect(settings)
    return cloud
