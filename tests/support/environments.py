"""Environments of their own for programs that must not bring their versions of what Spark needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def environment_with(home: Path, *packages: str) -> Path:
    """Where the programs of a new environment are that has these packages."""
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(home)], check=True)
    python = ["--python", str(home / "bin" / "python")]
    subprocess.run([uv, "pip", "install", "--quiet", *python, *packages], check=True)
    return home / "bin"
