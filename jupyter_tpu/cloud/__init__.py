"""Access to Google Cloud. This is the only package that imports ``google.*`` and ``grpc``.

Start with `api`, the interface that the product's other packages use, and `google`, which implements it. Callers see
only `CloudApi`, our own records (`models`) and our own errors (`errors`). This package must not depend on its callers:
no journal, fleet, server or user interface.
"""

from __future__ import annotations

from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.cloud.connect import connect_cloud
from jupyter_tpu.cloud.settings import CloudSettings, settings_from_environment

__all__ = ["CloudApi", "CloudSettings", "connect_cloud", "settings_from_environment"]
