"""The door to the Cloud TPU API: the only importer of ``google.*`` and ``grpc``.

The rest of the package sees `CloudApi`, our own records and our own errors.
"""

from __future__ import annotations

from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.cloud.connect import connect_cloud
from jupyter_tpu.cloud.settings import CloudSettings, settings_from_environment

__all__ = ["CloudApi", "CloudSettings", "connect_cloud", "settings_from_environment"]
