"""Workflow files, issue forms and hooks: they parse, and what they call exists."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from egt.cli.main import app

ROOT = Path(__file__).resolve().parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
YAML = sorted([*ROOT.glob(".github/**/*.yml"), ROOT / ".pre-commit-config.yaml"])
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
TESTED_OLDEST = ("mol", "graph", "sklearn", "figures", "export", "hub", "tune")
FORMS = sorted(path for path in ROOT.glob(".github/ISSUE_TEMPLATE/*.yml") if path.name != "config.yml")


def read(path: Path) -> dict[Any, Any]:
    content = yaml.safe_load(path.read_text())
    assert isinstance(content, dict)
    return content


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in read(path)["jobs"].values():
        yield from job["steps"]


def commands() -> Iterator[tuple[str, str]]:
    """Every line of shell in the workflows, the Makefile's recipes and `.ci/run`, with the file it is in."""
    for path in WORKFLOWS:
        for step in steps(path):
            yield from ((path.name, line) for line in step.get("run", "").splitlines())
    yield from (("Makefile", line) for line in re.findall(r"^\t\$\(BIN\)/(.*)$", MAKEFILE, re.MULTILINE))
    yield from ((".ci/run", line) for line in (ROOT / ".ci/run").read_text().splitlines() if line.startswith("make"))


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_every_file_parses(path: Path) -> None:
    assert read(path)


@pytest.mark.parametrize(("where", "command"), list(commands()))
def test_every_command_exists(where: str, command: str) -> None:
    first, *words = command.split()
    match first:
        case "make":
            goals = [word for word in words if "=" not in word]
            assert goals
            assert set(goals) <= TARGETS
        case "egt":
            assert words[0] in set(app())
        case "python" if words[:2] == ["-m", "pytest"]:
            paths = [word for word in words[2:] if word.startswith("tests/")]
            assert all((ROOT / path).exists() for path in paths)
        case "python" if words[0] == "-m" and words[1].startswith("egt."):
            assert (ROOT / "src" / Path(*words[1].split("."))).with_suffix(".py").exists()
        case "python" if words[:3] == ["-m", "mkdocs", "build"]:
            assert (ROOT / "mkdocs.yml").exists()
        case "python" if words[0].endswith(".py"):
            assert (ROOT / words[0]).exists()
        case "python":
            assert words[0] == "-m"
            assert words[1] in {"pip", "hatchling", "cibuildwheel"}, where
        case _:
            assert first in {"ruff", "mypy", "test"}, where


def test_the_container_runs_a_command_that_exists() -> None:
    entry = re.search(r"^ENTRYPOINT (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert entry is not None
    first, command, *_ = yaml.safe_load(entry[1])
    assert first == "egt"
    assert command in set(app())
    service = read(ROOT / "examples/compose.yaml")["services"]["egt"]
    assert (ROOT / "examples" / service["build"] / "Dockerfile").exists()
    assert "EGT_TOKEN" in service["environment"]


def test_ci_runs_tests_and_lint() -> None:
    script = (ROOT / ".ci/run").read_text().splitlines()
    assert {"make lint", "make test"} <= set(script)
    run = {command for where, command in commands() if where.endswith(".yml")}
    assert {"make lint PYTHON=python", "make test PYTHON=python"} <= run


def test_tests_do_not_wait_for_lint() -> None:
    needed = re.search(r"^test:(.*)$", MAKEFILE, re.MULTILINE)
    assert needed is not None
    assert "lint" not in needed[1]


def test_the_pythons_of_the_classifiers_are_tested() -> None:
    claimed = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    matrix = read(ROOT / ".github/workflows/test.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == claimed
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "macos"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_only_read_and_pin_their_actions(path: Path) -> None:
    content = read(path)
    assert content["permissions"] == {"contents": "read"}
    assert content[True]  # `on:` is a boolean to YAML
    for step in steps(path):
        assert ("run" in step) != ("uses" in step)
        pinned = re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/none@v0"))
        assert pinned or step["uses"] == "pypa/gh-action-pypi-publish@release/v1"


def test_only_the_job_that_publishes_a_tag_may_do_more_than_read() -> None:
    jobs = {(path.stem, name): job for path in WORKFLOWS for name, job in read(path)["jobs"].items()}
    assert {name for name, job in jobs.items() if "permissions" in job} == {("wheels", "publish")}
    publish = jobs["wheels", "publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"]
    assert "refs/tags/" in publish["if"]
    assert set(publish["needs"]) == set(read(ROOT / ".github/workflows/wheels.yml")["jobs"]) - {"publish"}


def test_the_oldest_dependencies_are_the_lower_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(each for name in TESTED_OLDEST for each in extras[name])]
    bounds = {canonicalize_name(each.name): each.specifier for each in map(Requirement, wanted)}
    pinned = re.findall(r"^([\w-]+)==(\S+)", (ROOT / "constraints-oldest.txt").read_text(), re.MULTILINE)
    oldest = {canonicalize_name(name): version for name, version in pinned}
    assert {name for name in bounds if name not in oldest} == set()
    for name, specifier in bounds.items():
        [lowest] = [Version(each.version) for each in specifier if each.operator == ">="]
        assert Version(oldest[name]).release[: len(lowest.release)] == lowest.release, name
    installed = [command for where, command in commands() if "constraints-oldest.txt" in command]
    assert len(installed) == 1
    assert all(extra in installed[0] for extra in TESTED_OLDEST)


def test_no_range_ends_above_the_major_version_that_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [extra for name, extra in project["optional-dependencies"].items() if name not in ("dev", "docs")]
    pinned = dict(re.findall(r"^([\w-]+)==([\w.]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    tested = {canonicalize_name(name): Version(version) for name, version in pinned.items()}
    for each in map(Requirement, [*project["dependencies"], *(each for extra in extras for each in extra)]):
        assert any(bound.operator == "<" for bound in each.specifier), each
        if now := tested.get(canonicalize_name(each.name)):  # else an extra that has to be installed by hand
            assert now in each.specifier, each
            assert f"{now.major + 1}.0" not in each.specifier, each


def test_a_package_has_one_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(each for extra in project["optional-dependencies"].values() for each in extra)]
    names = [Requirement(each).name for each in dict.fromkeys(asked)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_ask_with_ids_and_labels(path: Path) -> None:
    form = read(path)
    assert form["name"]
    assert form["description"]
    fields = form["body"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_the_bug_form_asks_for_the_doctor() -> None:
    labels = [field["attributes"]["label"] for field in read(ROOT / ".github/ISSUE_TEMPLATE/bug.yml")["body"]]
    assert any("egt doctor --json" in label for label in labels)


def test_hooks_run_what_lint_runs() -> None:
    hooks = [hook for repo in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    tools = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks}
    assert tools == {command.split()[0] for where, command in commands() if where == "Makefile"} - {"python"}


def test_the_pull_request_form_has_the_ten_questions() -> None:
    form = (ROOT / ".github/PULL_REQUEST_TEMPLATE.md").read_text()
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    assert re.findall(r"^- \[ \] (\d+)\.", form, re.MULTILINE) == [str(number) for number in range(1, 11)]
    assert re.findall(r"^(\d+)\. \*\*", guide, re.MULTILINE) == [str(number) for number in range(1, 11)]
