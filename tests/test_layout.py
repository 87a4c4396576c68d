"""Data flows one way: a module imports only from modules before it in this list."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "dusdi"
ORDER = [
    "errors", "signals", "files", "types", "parallel", "config", "skills", "nets", "normalise",
    "envs", "tasks", "rollout", "replay", "objectives", "agents", "learner", "checkpoint", "run",
    "policy", "progress", "loop", "pretraining", "hierarchy", "skill_env", "controller",
    "task_learning", "metrics", "report", "evaluation", "info", "compare",
    "experiments", "video", "cli", "__main__",
]  # fmt: skip


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def layer(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dusdi":
            names = (
                [alias.name for alias in node.names]
                if node.module == "dusdi"
                else [node.module.split(".")[1]]
            )
            for name in names:
                assert ORDER.index(name) <= ORDER.index(layer(path)), (
                    f"{path.name} imports {name}, which comes later"
                )


def test_every_module_says_what_lives_in_it():
    for path in [*modules(), PACKAGE / "__init__.py"]:
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_nothing_outside_envs_names_a_domain():
    for path in modules():
        if layer(path) not in ("envs", "tasks"):
            text = path.read_text().lower()
            assert not any(
                word in text for word in ("gunner", "particle", "station", "walker", "household")
            ), path
