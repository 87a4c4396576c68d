"""Jobs, records, curves and the order of jobs, each by itself."""

import dataclasses
import hashlib
import json
import math
import shutil
from pathlib import Path

import pytest

from dusdi.errors import CheckpointError, UsageError
from dusdi.experiments.curves import first_step_at, mean_over_steps, read_curve, thin
from dusdi.experiments.executors import Outcome, Schedule
from dusdi.experiments.jobs import (
    Job,
    dci_job,
    expert_job,
    find_setting,
    hash_of,
    is_trained,
    return_job,
    skills_job,
    task_job,
)
from dusdi.experiments.records import read_record, record_path, write_record
from dusdi.experiments.running import Folders, plan, run
from dusdi.presets import PRESETS

DEBUG = {"preset": "debug", "fields": {}}


def job(name, *inputs, **settings):
    return Job("skills", "toy", name, {"name": name, **settings}, inputs=inputs)


# --- identity ---


def test_a_job_that_fine_tunes_is_named_by_the_settings_that_its_run_will_have():
    policy = skills_job("gunner-2d", "dusdi", 0, **DEBUG)
    tuned = task_job("gunner-2d/limited", "sac", 0, policy, **DEBUG)
    scratch = task_job("gunner-2d/limited", "sac", 0, **DEBUG)
    for name, built in (("additive_actor", (True, False)), ("input_gain", (0.1, 0.0))):
        assert (find_setting(tuned.settings, name), find_setting(scratch.settings, name)) == built
    # Its actor waits for the critics as long as the policy's run acted at random.
    wait = find_setting(policy.settings, "random_steps")
    for name, found in (("random_steps", (0, wait)), ("actor_start", (wait, 0))):
        assert (find_setting(tuned.settings, name), find_setting(scratch.settings, name)) == found


def test_the_key_is_a_hash_of_canonical_json():
    text = b'{"a":[2,{"c":null}],"b":1}'
    expected = hashlib.blake2b(text, digest_size=6).hexdigest()
    assert hash_of({"b": 1, "a": [2, {"c": None}]}) == expected
    assert len(expected) == 12


def test_the_key_covers_all_that_determines_a_result_and_no_names():
    base = skills_job("gunner-2d", "dusdi", 0, **DEBUG)
    again = skills_job("gunner-2d", "dusdi", 0, **DEBUG, name="called otherwise")
    assert base.key == again.key and base.name != again.name
    fields = {"preset": "debug", "fields": {"alpha": 0.5}}
    others = [
        skills_job("gunner-2d", "dusdi", 1, **DEBUG),
        skills_job("gunner-2d", "diayn-mc", 0, **DEBUG),
        skills_job("gunner-2d", "dusdi", 0, **fields),
        skills_job("gunner-2d", "dusdi", 0, preset="fast", fields={}),
        skills_job("multi-particle", "dusdi", 0, **DEBUG),
        skills_job("multi-particle", "dusdi", 0, **DEBUG, options={"agents": 3}),
        dci_job(base, steps=4_000),
        dci_job(base, steps=5_000),
        expert_job(base, steps=4_000),
        task_job("gunner-2d/limited", "ppo", 0, base, **DEBUG),
        task_job("gunner-2d/limited", "cpg", 0, base, **DEBUG),
        task_job("gunner-2d/limited", "sac", 0, **DEBUG),
    ]
    others += [
        task_job("gunner-2d/limited", "ppo", 0, others[0], **DEBUG),
        return_job(others[-1], episodes=5),
        return_job(others[-1], episodes=6),
    ]
    assert len({base.key, *(other.key for other in others)}) == 1 + len(others)


def test_the_key_covers_how_often_factors_of_several_entries_are_clustered(monkeypatch):
    skills = [skills_job(world, "dusdi", 0, **DEBUG) for world in ("gunner-2d", "multi-particle")]

    def keys():
        return [job(run, steps=4_000).key for job in (dci_job, expert_job) for run in skills]

    before = keys()
    monkeypatch.setattr("dusdi.experiments.jobs.fits", lambda entries: 99)
    same = [now == then for now, then in zip(keys(), before, strict=True)]
    assert same == [False, True, False, True]  # stations are single entries
    assert dci_job(skills[0], steps=4_000).settings == {"steps": 4_000, "seed": 0}


def test_a_preset_with_other_contents_is_another_job(monkeypatch):
    before = skills_job("gunner-2d", "dusdi", 0, **DEBUG)
    monkeypatch.setitem(PRESETS["debug"], "alpha", 0.07)
    assert skills_job("gunner-2d", "dusdi", 0, **DEBUG).key != before.key


def test_settings_are_refused_before_anything_is_trained():
    with pytest.raises(UsageError, match="the first 320 are random"):
        skills_job("gunner-2d", "dusdi", 0, preset="debug", fields={"steps": 300})


def test_folders_are_readable_and_measuring_works_in_the_folder_of_its_run():
    skills = skills_job("multi-particle", "dusdi", 3, **DEBUG, options={"agents": 2})
    folder = skills.folder(Path("runs"))
    assert folder == Path(f"runs/multi-particle-agents=2-dusdi-seed3-{skills.key}")
    assert dci_job(skills, steps=9_000).folder(Path("runs")) == folder
    task = task_job("multi-particle/food-poison-easy", "ppo", 3, skills, **DEBUG)
    name = "multi-particle-food-poison-easy-dusdi-ppo-seed3"
    assert return_job(task, episodes=2).folder(Path("r")) == Path(f"r/{name}-{task.key}")


def test_each_seed_is_measured_on_episodes_of_its_own():
    skills = skills_job("gunner-2d", "dusdi", 7, **DEBUG)
    assert dci_job(skills, steps=9_000).settings == {"steps": 9_000, "seed": 7}


def test_settings_are_found_in_groups():
    assert find_setting({"run": {"seed": 4}, "sac": {"alpha": 0.1}}, "alpha") == 0.1


# --- records ---


def test_a_record_is_used_only_by_the_job_it_belongs_to(tmp_path):
    ours = job("a", seed=0)
    written = write_record(tmp_path, ours, {"scores": {"return": 1.5}})
    assert read_record(tmp_path, ours) == written
    assert read_record(tmp_path, job("a", seed=1)) is None
    assert [path.name for path in tmp_path.iterdir()] == [f"{ours.key}.json"]


def test_a_record_that_was_changed_or_damaged_is_not_used(tmp_path):
    ours = job("a", seed=0)
    changed = write_record(tmp_path, ours, {"scores": {"return": 1.5}})
    changed["job"]["settings"]["seed"] = 1
    better = {**changed, "job": ours.identity, "scores": {"return": 9.9}}  # nobody measured that
    for text in (json.dumps(changed), json.dumps(better), "{", "[]", "{}"):
        record_path(tmp_path, ours).write_text(text)
        with pytest.warns(UserWarning, match="is not used"):
            assert read_record(tmp_path, ours) is None
    record_path(tmp_path, ours).unlink()
    record_path(tmp_path, ours).mkdir()
    with pytest.warns(UserWarning, match="is not used"):
        assert read_record(tmp_path, ours) is None


def test_a_new_setting_leaves_records_valid_and_a_changed_default_does_not(tmp_path):
    made = skills_job("gunner-2d", "dusdi", 0, **DEBUG)
    networks = made.settings["networks"]
    assert "log_std_min" in networks  # a default of the paper's, which preset debug leaves alone
    assert "log_std_min" not in made.identity["settings"]["networks"]
    assert made.identity["settings"]["networks"]["actor_hidden"] == [16, 16]
    write_record(tmp_path, made, {"scores": {}})

    def later(**changes):
        settings = {**made.settings, "networks": {**networks, **changes}}
        return dataclasses.replace(made, settings=settings)

    assert read_record(tmp_path, later(new_setting=3)) is not None
    other = later(log_std_min=-5.0)
    measuring = dci_job(made, steps=9_000)
    write_record(tmp_path, measuring, {"scores": {}})
    for job in (other, dataclasses.replace(measuring, inputs=(other,))):
        with pytest.warns(UserWarning, match="has another default now"):
            assert read_record(tmp_path, job) is None


def test_a_run_with_other_defaults_is_not_taken_for_trained(gunner_run, tmp_path):
    fields = {"seeds": 2, "steps": 1_920}
    made = skills_job("gunner-2d", "dusdi", 0, preset="debug", fields=fields)
    made.folder(tmp_path).parent.mkdir(exist_ok=True)
    shutil.copytree(gunner_run, made.folder(tmp_path))
    assert is_trained(made, tmp_path)
    networks = {**made.settings["networks"], "log_std_min": -5.0}
    other = dataclasses.replace(made, settings={**made.settings, "networks": networks})
    with pytest.raises(UsageError, match=r"with log_std_min -10\.0, not -5"):
        is_trained(other, tmp_path)
    with pytest.raises(UsageError, match=r"with log_std_min -10\.0, not -5"):
        run(other, Folders(tmp_path, tmp_path / "records"))  # which would go on with that run
    shorter = {**made.settings, "run": {**made.settings["run"], "steps": 640}}
    with pytest.raises(UsageError, match="with steps 1920, not 640"):
        is_trained(dataclasses.replace(made, settings=shorter), tmp_path)
    elsewhere = dataclasses.replace(made, environment="multi-particle")
    shutil.copytree(gunner_run, elsewhere.folder(tmp_path))
    with pytest.raises(UsageError, match="in another world than multi-particle"):
        is_trained(elsewhere, tmp_path)


# --- curves ---


def test_a_curve_is_thinned_to_points_with_the_same_mean_over_steps():
    curve = {"step": [1, 2, 4, 5, 6], "seconds": [0.1, 0.2, 0.3, 0.4, 0.5], "m": [1, 2, 5, 3, 9]}
    thinned = thin(curve, "m", most=3)
    # (1·1 + 2·1) / 2, then (5·2 + 3·1) / 3, then 9
    assert thinned == {"step": [2, 5, 6], "seconds": [0.2, 0.4, 0.5], "m": [1.5, 4.33333, 9.0]}
    assert thin(curve, "m", most=5)["m"] == curve["m"]
    assert thin({"step": [], "seconds": [], "m": []}, "m") == {"step": [], "seconds": [], "m": []}
    mean = mean_over_steps([1, 2, 4, 5, 6], curve["m"], start=0, end=6)
    assert mean == pytest.approx((1 + 2 + 10 + 3 + 9) / 6)
    thinned_mean = mean_over_steps(thinned["step"], thinned["m"], start=0, end=6)
    assert thinned_mean == pytest.approx(mean, abs=1e-5)


def test_curves_logged_at_different_steps_are_compared_where_all_have_values():
    assert mean_over_steps([10, 20], [1.0, 3.0], start=0, end=20) == 2.0
    # From 10 to 20 the value is 4, then 7 for another 5 steps; what is logged at 40 is of later.
    assert mean_over_steps([10, 20, 30, 40], [0.0, 4.0, 7.0, 99.0], start=10, end=25) == 5.0
    # A start in the middle of two rows leaves the rest of the later one.
    assert mean_over_steps([10, 20, 30], [0.0, 4.0, 7.0], start=15, end=30) == 6.0
    # The first row of a curve that begins late says nothing of the steps before it.
    assert mean_over_steps([20, 30], [50.0, 7.0], start=20, end=30) == 7.0


def test_curves_without_common_steps_have_no_mean():
    assert math.isnan(mean_over_steps([], [], start=0, end=20))
    assert math.isnan(mean_over_steps([20], [2.0], start=20, end=20))
    assert math.isnan(mean_over_steps([10, 30], [1.0, 2.0], start=20, end=10))


def test_the_first_step_at_a_level():
    assert first_step_at([1, 2, 3], [0.1, 0.6, 0.4], 0.5) == 2
    assert first_step_at([1, 2, 3], [0.1, 0.2, 0.4], 0.5) == math.inf


def test_the_headline_metric_is_the_first_and_rows_without_it_are_left_out(tmp_path):
    text = "step,seed,seconds,distance,loss\n10,0,1.5,nan,1\n20,0,2.5,0.25,2\n"
    (tmp_path / "progress.csv").write_text(text)
    curve = {"step": [20.0], "seconds": [2.5], "distance": [0.25]}
    assert read_curve(tmp_path, 20) == ("distance", curve)
    assert read_curve(tmp_path, 20, "loss")[1]["loss"] == [1.0, 2.0]


DAMAGED = [
    "garbage",
    "step,accuracy\n640,x\n",
    "step,seed\n640,0\n",
    "",
    "step,seed,seconds,accuracy\n",
    "step,seed,seconds,accuracy\n320,0,1.0,0.5\n",  # the last row is missing
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_curve_is_said(tmp_path, text):
    (tmp_path / "progress.csv").write_text(text)
    with pytest.raises(CheckpointError, match=r"progress\.csv is damaged; remove"):
        read_curve(tmp_path, 640)


# --- order ---


def test_what_is_there_is_not_planned_and_missing_runs_are(monkeypatch):
    skills = job("skills")
    other = job("other")
    dci = Job("dci", "toy", "dci", {}, inputs=(skills,))
    task = Job("task", "toy", "task", {}, inputs=(other,))
    final = Job("return", "toy", "final", {}, inputs=(task,))
    there = {other.key}
    is_there = "dusdi.experiments.running.is_trained"
    monkeypatch.setattr(is_there, lambda found, runs: found.key in there)
    wanted = [dci, task, final]

    def planned(records):
        return [found.name for found in plan(wanted, records, Path("runs"))]

    assert planned({}) == ["skills", "dci", "task", "final"]
    assert planned({skills.key: {}}) == ["skills", "dci", "task", "final"]  # its folder is gone
    assert planned({dci.key: {}, task.key: {}}) == ["task", "final"]
    there |= {task.key, skills.key}
    assert planned({task.key: {}}) == ["dci", "final"]
    assert planned({found.key: {} for found in wanted}) == []


def test_a_job_starts_when_its_own_inputs_are_done():
    a = job("a")
    b = job("b")
    top = job("top", a, b)
    absent = job("absent")
    free = job("free", absent)  # its input is not in the graph, so it is there already
    schedule = Schedule([top, a, b, free])
    started = [schedule.start(), schedule.start(), schedule.start()]
    assert started == [a, b, free]
    assert schedule.start() is None
    schedule.finish(Outcome(a))
    assert schedule.start() is None
    schedule.finish(Outcome(b))
    assert schedule.start() is top
    assert schedule.start() is None
