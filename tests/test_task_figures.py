"""Figures and tables of tasks from canned records."""

import dataclasses
import json
import re

import pandas as pd
from canned import FIRST, page, row

from dusdi.experiments import reproduce
from dusdi.experiments.fig4 import cells as fig4_cells
from dusdi.tasks import COMPARED_TASKS, SUSD_TASKS, make_task

# --- figures of tasks ---


def fig4(settings, **changes):
    reproduce(
        "fig4", dataclasses.replace(settings, worlds=(), tasks=(f"{FIRST}/limited",), **changes)
    )
    return page(settings, "fig4")


def test_fig4_measures_from_each_methods_own_floor(fake, settings):
    def scores(job):
        floors = {"dusdi": 1.0, "diayn": -3.0}
        method = next((name for name in floors if f"-{name}-ppo" in job.name), None)
        return {"return": 5.0, "random_skills": floors.get(method), "scripted_reference": 9.0}

    fake.scores["return"] = scores
    text = fig4(settings, methods=("dusdi", "diayn", "sac"))
    assert "Scripted reference 9.0." in text
    # (5 − 1) / (9 − 1) and (5 + 3) / (9 + 3); soft actor-critic has no skills to choose at random
    assert row(text, "dusdi")[:3] == ["5.0 [5.0, 5.0]", "1.0", "50%"]
    assert row(text, "diayn")[:3] == ["5.0 [5.0, 5.0]", "-3.0", "67%"]
    assert row(text, "sac")[:3] == ["5.0 [5.0, 5.0]", "–", "–"]
    finals = pd.read_csv(settings.out / "fig4-final.csv")
    assert finals.groupby("method", sort=False).size().to_dict() == {
        "dusdi": 2,
        "diayn": 2,
        "sac": 2,
    }


def seeded(**returns):
    """Scores of a return job: what its method has by seed, of a scripted reference of 10."""

    def scores(job):
        method = next(name for name in returns if f"-{name}-" in job.name)
        value = returns[method][job.settings["seed"]]
        return {"return": value, "random_skills": 2.0, "scripted_reference": 10.0}

    return scores


def test_fig4_shows_the_interquartile_mean_with_its_interval(fake, settings):
    fake.scores["return"] = seeded(dusdi=[4.0, 4.0, 4.0, 4.0, 13.0], sac=[1.0, 2.0, 4.0, 8.0, 99.0])
    text = fig4(settings, methods=("dusdi", "sac"), seeds=5)
    # The middle three are all 4; of five draws three are 13 in 5.8 % of cases, four in 0.7 %.
    assert row(text, "dusdi")[:3] == ["4.0 [4.0, 10.0]", "2.0", "25%"]
    assert row(text, "sac")[0].startswith("4.7 [")  # (2 + 4 + 8) / 3
    # 4 is above 1 and 2 and equal to 4, 13 is above all but 99: (4 · 2.5 + 4) / 25
    assert row(text, "dusdi")[-1] == "" and row(text, "sac")[-1] == "0.56"
    headings = [f"{FIRST}/limited", "Over tasks", FIRST, "Wall time"]
    assert re.findall("^##+ (.*)$", text, re.M) == headings
    assert "- sac: intervals overlap in limited." in text
    assert "Scripted reference 10.0. Seeds of each method: 5." in text
    assert "With fewer than" not in text


def test_fig4_tells_if_methods_have_different_numbers_of_seeds(fake, settings):
    fig4(settings, methods=("dusdi",), seeds=3)
    fig4(settings, methods=("dusdi", "sac"), seeds=2)
    other = {"worlds": (), "tasks": (f"{FIRST}/unlimited",), "seeds": 3}
    reproduce("fig4", dataclasses.replace(settings, methods=("dusdi", "sac"), **other))
    text = page(settings, "fig4")
    assert "Seeds of each method: 2 to 3." in text.split("## Over tasks")[0]
    assert "With fewer than 5 seeds, intervals are far too narrow." in text
    assert text.count("Seeds of each method: 3.") == 1


def test_methods_that_are_not_chosen_stay_in_a_figure(fake, settings):
    fig4(settings, methods=("dusdi", "sac"), seeds=2)
    text = fig4(settings, methods=("cic",), seeds=2)
    assert all(row(text, method) for method in ("dusdi", "sac", "cic"))


def test_fig4_compares_learning_on_common_steps(fake, settings):
    def curve(job):
        if "sac" in job.name:
            return {"step": [20, 40], "return": [2.0, 8.0]}
        return {"step": [10, 20, 30], "return": [0.0, 4.0, 2.0]}

    fake.curve = lambda job: {**curve(job), "accuracy": [0.0] * len(curve(job)["step"])}
    text = fig4(settings, methods=("dusdi", "sac"))
    # From step 20, where the later one starts, to 30, where the other ends
    assert row(text, "dusdi")[3] == "2.0 [2.0, 2.0]"
    assert row(text, "sac")[3] == "8.0 [8.0, 8.0]"


def test_fig4_survives_curves_without_an_episode(fake, settings):
    empty = {"step": [], "return": [], "accuracy": []}
    full = {"step": [10, 20], "return": [1.0, 3.0], "accuracy": [0.5, 0.5]}
    fake.curve = lambda job: empty if "-dusdi-ppo" in job.name else full
    text = fig4(settings, methods=("dusdi", "sac"))
    assert row(text, "dusdi")[3:5] == ["–", "2 + 2"]
    assert row(text, "sac")[3:5] == ["3.0 [3.0, 3.0]", "2"]
    fake.curve = lambda job: empty
    text = fig4(settings, methods=("dusdi", "sac"), task_fields={"steps": 9_600})
    assert row(text, "sac")[3:5] == ["–", "2"]


def test_fig4_tells_if_a_flat_method_had_less_time_than_skills_and_task_together(fake, settings):
    seconds = {"skills": 9.0, "task": 2.0}
    fake.seconds = lambda job: 12.0 if "sac" in job.name else seconds.get(job.kind, 2.0)
    assert "together. All of them had." in fig4(settings, methods=("dusdi", "sac"))
    fake.seconds = lambda job: seconds.get(job.kind, 2.0)
    text = fig4(settings, methods=("dusdi", "rnd", "sac"), task_fields={"steps": 9_600})
    assert [row(text, name)[4] for name in ("dusdi", "rnd", "sac")] == ["9 + 2", "9 + 2", "2"]
    assert f"- {FIRST}/limited: dusdi 11 s; sac 2 s.\n" in text


def test_fig4_without_a_scripted_reference_has_no_share(fake, settings):
    ends = {"return": 5.0, "random_skills": 1.0, "scripted_reference": None}
    fake.scores["return"] = lambda job: ends
    text = fig4(settings, methods=("dusdi",))
    assert "There is no scripted reference." in text and row(text, "dusdi")[2] == "–"


def test_fig6_compares_both_policy_gradients(fake, settings):
    reproduce("fig6", dataclasses.replace(settings, worlds=(), seeds=1))
    assert row(page(settings, "fig6"), "dusdi + cpg")[0] == "5.0"
    done = fake.take()
    assert len([name for name in done if name.startswith("skills")]) == 1
    assert len([name for name in done if "-cpg-" in name]) == 4


# --- SUSD's tasks ---


def test_susds_table_has_published_and_measured_returns_side_by_side(fake, settings):
    def scores(job):
        own = {"return": 50.0, "random_skills": 1.0, "scripted_reference": 99.0}
        seed = job.settings["seed"]
        discounted = {"return": 10.0 + 2 * seed, "random_skills": 0.5, "scripted_reference": 18.3}
        return own | {f"discounted_{name}": value for name, value in discounted.items()}

    fake.scores["return"] = scores
    tasks = (SUSD_TASKS[0], SUSD_TASKS[4])
    files = reproduce("susd", dataclasses.replace(settings, worlds=(), tasks=tasks))
    assert [path.name for path in files] == ["susd.csv", "susd.md"]
    done = fake.take()
    assert len(done) == 2 * 2 + 2 * 2 * 2 * 2  # skills; tasks of each, and their returns
    assert all("layout=0" in name for name in done if name.startswith("skills"))
    text = page(settings, "susd")
    assert "Σ_t 0.99^t times the mean reward of decision t, of 5 steps each" in text
    assert row(text, "published, susd") == ["16.6", "55.6"]
    assert row(text, "published, dusdi") == ["8.0", "-3.7"]
    assert row(text, "ours, susd") == row(text, "ours, dusdi") == ["11.0 ± 1.4"] * 2
    assert row(text, "ours, random skills of susd") == ["0.5"] * 2
    assert row(text, "scripted reference") == ["18.3"] * 2
    assert make_task(tasks[0]).published_note in text and "evaluated wrongly" in text


def test_fig4_leaves_susds_tasks_alone(settings):
    shown = fig4_cells(dataclasses.replace(settings, worlds=(), seeds=1, methods=("sac",)))
    assert tuple(dict.fromkeys(cell.labels["task"] for cell in shown)) == COMPARED_TASKS


def test_fig4_says_where_the_wall_time_before_a_task_is_not_known(fake, settings):
    fig4(settings, methods=("dusdi", "sac"), seeds=1)
    for path in settings.folders.records.glob("*.json"):
        if json.loads(path.read_text())["job"]["kind"] == "skills":
            path.unlink()  # as with another --out: the runs are there, and not their records
    text = fig4(settings, methods=("dusdi", "sac"), seeds=1)
    assert f"- {FIRST}/limited: not known, since the runs before have no records." in text
    assert "All of them had" not in text and row(text, "dusdi")[-2] == "? + 2"
