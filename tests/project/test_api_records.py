"""The front end's records of the REST API are those that rest-api.yml describes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LABEXTENSION = Path(__file__).parents[2] / "labextension"


def test_the_typescript_records_follow_the_description_of_the_api(tmp_path):
    written = tmp_path / "api.generated.ts"
    subprocess.run([sys.executable, str(LABEXTENSION / "generate_api.py"), str(written)], check=True)
    assert written.read_text() == (LABEXTENSION / "src" / "api.generated.ts").read_text(), (
        "run `python labextension/generate_api.py`"
    )
