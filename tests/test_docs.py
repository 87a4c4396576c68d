"""The documentation: links lead somewhere, code runs, tables name the settings there are."""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import dusdi
from dusdi.cli.learning import pretrain_parser
from dusdi.cli.options import QuietOptions
from dusdi.cli.pretrain import PretrainOptions
from dusdi.cli.values import read_pairs
from dusdi.cli.worlds import FACTOR_FORM
from dusdi.experiments import ablation
from dusdi.methods import METHODS
from dusdi.settings import NetworkSettings, PPOSettings, RunSettings, SACSettings, TaskRunSettings
from dusdi.spaces import parse_space

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "results" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHARED = (RunSettings, NetworkSettings, SACSettings, TaskRunSettings, PPOSettings)


def names(path):
    return str(path.relative_to(ROOT))


def blocks(page):
    return re.findall(r"```python[^\n]*\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)


def anchor(heading):
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_lead_somewhere(page):
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for link in re.findall(r"\]\(([^)]+)\)", prose):
        file, _, place = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        if place:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.M)
            assert place in map(anchor, headings), link


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_lines_are_short_enough_to_read_in_a_diff(page):
    for line in page.read_text().splitlines():
        is_text = not line.startswith(("|", "![")) and "](" not in line and "title =" not in line
        assert not is_text or len(line) <= 100, line


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_commands_that_discover_skills_have_options_that_there_are(page, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *sys.path])
    text = page.read_text().replace("\\\n", " ")
    for block in re.findall(r"```bash\n(.*?)```", text, re.S):
        for command in re.findall(r"^dusdi pretrain (.*)$", block, re.M):
            words = shlex.split(command, comments=True)
            parser = pretrain_parser(words, "pretrain", "", PretrainOptions, QuietOptions)
            given = parser.parse(words)
            read_pairs("--factor", FACTOR_FORM, given.get("factor", ()))
            for part in given.get("components", ()):
                parse_space(part.split("=")[1])


def listed_settings(page):
    """The settings in the first columns of a page's tables of settings."""
    found = []
    for table in re.findall(r"^\| setting .*\n\|[-|]+\n((?:\|.*\n)+)", page.read_text(), re.M):
        for row in table.splitlines():
            found += re.findall(r"`(\w+)`", row.split("|")[1])
    return found


def test_the_page_of_a_method_lists_its_settings():
    for name, method in METHODS.items():
        if name != "diayn-mc":  # on the page of DIAYN
            listed = listed_settings(ROOT / "docs" / "methods" / f"{name}.md")
            assert sorted(listed) == sorted(method.Settings.fields()), name


@pytest.mark.parametrize("world", ["multi-particle", "gunner-2d", "walker", "household"])
def test_the_page_of_a_world_lists_what_it_changes_in_fast(world):
    listed = listed_settings(ROOT / "docs" / "worlds" / f"{world}.md")
    made = dusdi.make(world)
    methods = made.method_presets.get("fast", {}).values()
    changed = {name for fields in (made.presets.get("fast", {}), *methods) for name in fields}
    assert sorted(listed) == sorted(changed)


def test_the_ablation_page_names_every_decision():
    known = {name for group in SHARED for name in group.fields()}
    known |= {name for method in METHODS.values() for name in method.Settings.fields()}
    switched = {name for fields in ablation.DECISIONS.values() for name in fields}
    text = (ROOT / "docs" / "ablation.md").read_text()
    rows = re.findall(r"^\|[^|]+\|([^|]+)\|[^|]+\|$", text, re.M)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert switched <= listed <= known


def test_the_forward_pass_in_numpy_is_that_of_the_policy(gunner_run):
    skills = dusdi.load(gunner_run)
    code = next(code for code in blocks("skills.md") if "def act" in code)
    scope = {}
    exec(code.replace("runs/gunner/policy", f"{gunner_run}/policy-seed0"), scope)
    random = np.random.default_rng(0)
    for skill in skills.sample_skills(5):
        observation = random.normal(size=7).astype(np.float32)
        expected = skills.act(observation, skill)
        np.testing.assert_allclose(scope["act"](observation, skill), expected, atol=1e-5)


@pytest.mark.slow
def test_a_reward_of_ones_own_runs():
    code = next(code for code in blocks("sources.md") if "def go_there" in code)
    scope = {"__name__": "page"}
    options = '"gunner-2d", preset="debug", progress=False,'
    exec(code.replace('"gunner-2d",', options), scope)
    assert str(scope["skills"].space) == "box:2, categorical:5, categorical:5"


@pytest.mark.slow
def test_a_world_a_wrapper_and_a_task_of_ones_own_run():
    code = [code for code in blocks("worlds/your-own.md") if "def make_cheetah" not in code]
    scope = {}
    text = "\n".join(code).replace("steps=128_000", 'preset="debug", progress=False')
    exec(text.replace("steps=512_000", 'preset="debug", progress=False'), scope)
    assert scope["skills"].space.names == ("near the edge", "free")
    assert scope["task"].spec.name == "squared gunner-2d/limited"
    assert scope["solution"].settings["agent"] == "cpg"


@pytest.mark.slow
def test_a_method_of_ones_own_runs(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *sys.path])
    skills = dusdi.pretrain(
        "gunner-2d", method="goal_method:Goals", preset="debug", goal_range=1.0, progress=False
    )
    assert str(skills.space) == "box:2, box:3, box:2"
    assert skills.settings["objective"] == {"goal_range": 1.0}
