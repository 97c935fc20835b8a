"""Jars from Maven's repository, for tests of what Spark does with them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

RESOLVE_S = 180


def resolve(pom: Path, artifacts: list[str], alone: bool = False) -> tuple[list[str], str]:
    """Jars of these artifacts and of what they need, or none and the reason."""
    maven = shutil.which("mvn")
    if maven is None:
        return [], "needs mvn (Maven) on PATH"
    pom.write_text(_project(artifacts, alone))
    found = pom.with_suffix(".classpath")
    goal = ["dependency:build-classpath", f"-Dmdep.outputFile={found}"]
    try:
        done = subprocess.run(
            [maven, "--batch-mode", "--quiet", "--file", str(pom), *goal],
            capture_output=True,
            text=True,
            timeout=RESOLVE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [], f"Maven did not find {artifacts[0]} within {RESOLVE_S} s"
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if "[ERROR]" in line]
        return [], f"Maven did not find {artifacts[0]}: {lines[0] if lines else done.stderr}"
    return found.read_text().strip().split(os.pathsep), ""


def _project(artifacts: list[str], alone: bool) -> str:
    rest = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>" if alone else ""
    dependencies = ""
    for artifact in artifacts:
        group, name, version = artifact.split(":")
        dependencies += (
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
            f"<version>{version}</version><exclusions>{rest}</exclusions></dependency>\n"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>\n'
        "<groupId>matchyard</groupId><artifactId>jars</artifactId><version>1</version>\n"
        f"<packaging>pom</packaging><dependencies>\n{dependencies}</dependencies></project>\n"
    )
