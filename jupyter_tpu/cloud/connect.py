"""Open the cloud that the settings name."""

from __future__ import annotations

import asyncio
import importlib

from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.cloud.settings import CloudSettings


async def connect_cloud(settings: CloudSettings) -> CloudApi:
    """Connect to Google Cloud or to an emulator; nothing is asked of it yet.

    Raises:
        CredentialsMissing: nobody is signed in (never for an emulator).
        BadInput: no project is named, and the credentials name none either.
    """
    # Google's client takes a second to import: neither Jupyter Server's start nor its event loop must wait for it
    google = await asyncio.to_thread(importlib.import_module, "jupyter_tpu.cloud.google")
    cloud: CloudApi = await google.connect(settings)
    return cloud
