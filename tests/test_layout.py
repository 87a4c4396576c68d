"""Where things are: imports point one way, files are short, each kind of thing has one home."""

import ast
import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dusdi"
#: A module imports only from modules before it; a folder counts as one module.
ORDER = [
    "errors", "signals", "files", "modules", "types", "checks", "messages", "progress", "parallel",
    "provenance", "settings", "presets", "nets", "spaces", "skill_space", "normalise", "replay",
    "checkpoint", "arrays", "raster", "encoder", "envs", "tasks", "stepping", "sources", "methods",
    "resolve", "agents", "policy",
    "skills", "hierarchy", "controller", "skill_env", "learner", "trainers", "high_level", "run",
    "resume", "training", "fine_tuning", "learning", "pretraining", "task_learning", "rollouts",
    "metrics", "report", "encoder_training", "evaluation", "task_evaluation", "info", "compare",
    "video",
    "experiments", "cli", "__main__",
]  # fmt: skip
LONGEST = 400
KINDS = "Categorical|Box|Sphere|Continuous"


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def layer(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path):
    """The modules of the package that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module == "dusdi":
            names = [f"dusdi.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith("dusdi."):
                yield name.split(".")[1]


def test_the_order_names_every_module_once():
    assert sorted(ORDER) == sorted({layer(path) for path in modules()})


def test_imports_point_one_way():
    for path in modules():
        place = ORDER.index(layer(path))
        later = {name for name in imported(path) if ORDER.index(name) > place}
        assert not later, f"{path} imports {later}, which come later"


def test_the_picture_of_imports_is_true():
    groups = runpy.run_path(str(ROOT / "docs" / "images" / "flow.py"))["LAYERS"]
    place = {
        name: i for i, lines in enumerate(groups) for line in lines for name in line.split(", ")
    }
    assert set(place) <= set(ORDER)
    for path in modules():
        later = {name for name in imported(path) if place.get(name, 0) > place.get(layer(path), 99)}
        assert not later, f"{path} imports {later}, which are to the right of it"


def test_acting_needs_nothing_of_what_learning_needs():
    """What `dusdi.load` imports, directly or through others."""
    needed = set()
    found = {"skills"}
    while found:
        needed |= found
        paths = [path for path in modules() if layer(path) in found]
        found = {name for path in paths for name in imported(path)} - needed
    allowed = {"skills", "skill_space", "spaces", "policy", "types", "errors", "files", "normalise"}
    assert needed <= allowed | {"nets", "checkpoint", "arrays"}  # for folding, and for digests


def test_files_say_what_lives_in_them_and_are_short():
    folders = ("tests", "bench", "examples")
    others = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    for path in [*modules(), *others]:
        text = path.read_text()
        assert ast.get_docstring(ast.parse(text)), path
        assert len(text.splitlines()) <= LONGEST, path


def test_only_spaces_ask_for_the_kind_of_a_component():
    asks = re.compile(
        rf"isinstance\([^)]*\b(?<!spaces\.)({KINDS})\b|type\([^)]*\) (is|==) ({KINDS})\b"
        r"|space\.kind\s*(==|!=|in)\s|(space|component|space\])\.categories is\b"
    )
    for path in modules():
        if layer(path) not in ("spaces", "skill_space"):
            found = asks.search(path.read_text())
            assert not found, f"{path.name}: {found and found[0]}"


def test_nothing_outside_envs_names_a_domain():
    words = ("gunner", "particle", "station", "walker", "household")
    for path in modules():
        if layer(path) not in ("envs", "tasks"):
            text = path.read_text().lower()
            assert not any(word in text for word in words), path
