"""Ablation: each decision in the preset `fast` switched back, one at a time, on tuning seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dusdi.envs import make
from dusdi.experiments.jobs import Job, dci_job
from dusdi.experiments.results import Results, markdown_table, mean_and_spread, mean_text
from dusdi.experiments.settings import FIRST_TUNING_SEED, Cell, Settings, paper_worlds
from dusdi.metrics.dci import NAMES
from dusdi.resolve import PretrainSettings, resolve_pretrain
from dusdi.sources.discriminate import rbf_entries
from dusdi.types import WorldSpec

DIRECTION = "skills to states"
#: The decisions: what is switched back, and the fields that do so.
DECISIONS: dict[str, dict[str, Any]] = {
    "skill joins the state (no FiLM)": {"skill_input": "concat"},
    "one actor network (not additive)": {"additive_actor": False},
    "no gains on the inputs": {"input_gain": 0.0},
    "state-dependent standard deviation": {"state_independent_std": False},
    "no RBF features": {"rbf_features": 0},
    "RBF features of all entries": {"rbf_on": "all"},
    "discriminators with a hidden layer": {"discriminator_hidden": (64,)},
    "twin critics": {"twin_critics": True},
    "entropy as a Q channel": {"entropy_backup": "channel"},
    "fixed temperature": {"learn_alpha": False},
    "discount of the first release": {"discount": 0.95},
    "linear q_psi": {"penalty_hidden": ()},
    "penalty with the paper's weight": {"penalty_weight": 0.1},
    "no background class": {"background_weight": 0.0},
    "no prior mixture": {"prior_mixture": 0.0},
}
#: How settings begin that are worth little each, and are therefore switched back at once, too.
DISCRIMINATORS = ("discriminator", "rbf", "penalty")
#: Settings of a world that are no decisions: how much is learned, and in how large steps.
BUDGET = ("steps", "num_envs", "steps_per_update", "batch_size", "background_steps")


def world_decisions(world: str, preset: str) -> dict[str, dict[str, Any]]:
    """Each setting of a world's own switched back to what the preset says for all worlds."""
    made = make(world)
    own = made.method_presets.get(preset, {}).get("dusdi", {})
    usual = resolve_pretrain(Plain(made.spec), preset=preset).settings.flat()  # type: ignore[arg-type]
    changed = [name for name, value in own.items() if name not in BUDGET and usual[name] != value]
    decisions = {
        f"{name} {usual[name]} instead of {own[name]}": {name: usual[name]} for name in changed
    }
    together = {name: usual[name] for name in changed if name.startswith(DISCRIMINATORS)}
    if len(together) > 1:
        decisions["discriminators as in other worlds: " + ", ".join(together)] = together
    return decisions


class Plain(NamedTuple):
    """A world without settings of its own."""

    spec: WorldSpec
    presets: dict[str, Any] = {}
    method_presets: dict[str, Any] = {}


def _all_decisions(world: str, preset: str) -> dict[str, dict[str, Any]]:
    """The decisions for all worlds, and those of a world that are not among them."""
    own = world_decisions(world, preset)
    same = list(DECISIONS.values())
    return {**DECISIONS, **{label: fields for label, fields in own.items() if fields not in same}}


def cells(settings: Settings) -> list[Cell]:
    """Returns the preset and every decision that changes something, in each world."""
    found = []
    for world in settings.chosen(paper_worlds()):
        spec = make(world).spec
        variants = {settings.preset: {}, **_all_decisions(world, settings.preset)}
        # Seed after seed: if it is stopped, what is done compares all decisions.
        for seed in range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + settings.seeds):
            base = _effective(spec, settings.skills(world, "dusdi", seed))
            for label, fields in variants.items():
                name = "-".join(["dusdi", *(f"{key}={value}" for key, value in fields.items())])
                skills = settings.skills(world, "dusdi", seed, fields=fields, name=name)
                if fields and _effective(spec, skills) == base:
                    continue  # the preset has it so in this world already
                labels = {"world": world, "method": label, "seed": seed}
                measured = dci_job(skills, steps=settings.evaluation_steps)
                found.append(Cell(labels, measured, frozenset(fields)))
    return found


def _effective(spec: WorldSpec, job: Job) -> dict[str, Any]:
    """The settings of a job by what they do in a world: radial basis functions by their entries."""
    settings = PretrainSettings.from_json(job.settings)
    seen = rbf_entries(spec, settings.objective)  # type: ignore[arg-type]
    flat = settings.flat()
    count = flat["rbf_features"] if seen.any() else 0
    return {**flat, "rbf_on": seen.tolist(), "rbf_features": count}


def write(results: Results) -> list[Path]:
    """Writes the scores of each seed (CSV) and a table of differences to the preset."""
    scores = results.scores("dci")
    first = scores["seed"].min()
    last = scores["seed"].max()
    lines = [
        f"# Ablation of the preset `{results.settings.preset}`",
        "",
        f"Each decision is switched back alone. DCI from {DIRECTION} on "
        f"{results.settings.evaluation_steps:,} steps, seeds {first} to {last}.",
        "Below the preset's scores are differences to it, the mean ± standard deviation of the "
        "differences of each seed.",
        "A decision that a world's preset does not take is left out there.",
    ]
    scores = scores[scores["direction"] == DIRECTION]
    for world, own in scores.groupby("world", sort=False):
        lines += ["", f"## {world}", "", *_world_table(own, results.settings.preset)]
    return [results.write_csv(scores), results.write_markdown(lines)]


def _world_table(scores: pd.DataFrame, preset: str) -> list[str]:
    """Returns the lines of a world's table: the preset's scores, then differences to it."""
    base = scores[scores["method"] == preset].set_index("seed")
    rows = []
    for method, own in scores.groupby("method", sort=False):
        found = own.set_index("seed")
        values = [found[name].astype(float) for name in NAMES]
        style = ".3f"
        if method != preset:
            values = [found[name].astype(float) - base[name].astype(float) for name in NAMES]
            style = "+.3f"
        cells = [mean_and_spread(value, style).replace("± +", "± ") for value in values]
        rows.append([str(method), *cells, str(len(found)), mean_text(found["seconds"], ".0f")])
    return markdown_table(["", *NAMES, "seeds", "seconds per seed"], rows)
