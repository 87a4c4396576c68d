"""The whole loop: resume bit for bit, refuse what can't work, stop cleanly."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import dusdi.loop
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import SLIDERS, Sliders
from dusdi.objectives.dusdi import Dusdi

import dusdi
from dusdi import checkpoint
from dusdi.errors import NonFiniteError, UsageError
from dusdi.learner import Learner, make_trainer
from dusdi.run import held

RUN_IN_CHILD = """
import sys; sys.path.insert(0, {tests!r})
import dusdi
import dusdi.loop
from conftest import SLIDERS, Sliders
world = dusdi.make("gunner-2d") if {kind!r} == "graph" else dusdi.from_gymnasium(Sliders, SLIDERS)
fields = dict(elsewhere_weight=1.0, elsewhere_steps=2560, discriminator_decay=1e-2, reward_floor=0.2)
fields |= dict(input_limit=3, input_limit_from=1000)
dusdi.pretrain(world, preset="debug", out={out!r}, resume=True, progress=False, seeds={seeds}, **fields)
"""


def child(kind, out, seeds=1):
    code = RUN_IN_CHILD.format(
        tests=os.path.dirname(__file__), kind=kind, out=str(out), seeds=seeds
    )
    return subprocess.Popen([sys.executable, "-c", code])


def rows(folder):
    """The CSV without the one column that depends on the clock."""
    with (folder / "progress.csv").open(newline="") as file:
        return [
            {name: value for name, value in row.items() if name != "seconds"}
            for row in csv.DictReader(file)
        ]


def final_arrays(folder):
    return checkpoint.load_newest(folder / "checkpoints").arrays


def same(left, right):
    assert left.keys() == right.keys()
    return [name for name in left if left[name].tobytes() != right[name].tobytes()] == []


@pytest.mark.parametrize(("kind", "seeds"), [("graph", 2), ("host", 1)])
def test_a_killed_run_resumes_bit_for_bit(tmp_path, kind, seeds):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert child(kind, whole, seeds).wait() == 0
    process = child(kind, killed, seeds)
    while not list((killed / "checkpoints").glob("step-*.safetensors")):
        time.sleep(0.002)
        assert process.poll() is None, "finished before it could be killed"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(rows(killed)) < len(rows(whole))
    assert child(kind, killed, seeds).wait() == 0
    assert rows(killed) == rows(whole)
    assert same(final_arrays(killed), final_arrays(whole))


def test_the_pieces_of_the_loop_do_not_matter(tmp_path, monkeypatch):
    dusdi.pretrain("gunner-2d", preset="debug", out=tmp_path / "a", progress=False)
    monkeypatch.setattr(dusdi.loop, "PIECE_SECONDS", 0.0)
    dusdi.pretrain("gunner-2d", preset="debug", out=tmp_path / "b", progress=False)
    assert rows(tmp_path / "a") == rows(tmp_path / "b")
    assert same(final_arrays(tmp_path / "a"), final_arrays(tmp_path / "b"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_kill_save_and_resume_gives_the_same_numbers(tmp_path, number):
    dusdi.pretrain("gunner-2d", preset="debug", out=tmp_path / "whole", progress=False)
    code = [
        sys.executable,
        "-m",
        "dusdi.cli",
        "pretrain",
        "gunner-2d",
        "--preset",
        "debug",
        "--quiet",
    ]
    code += ["--out", str(tmp_path / "stopped")]
    process = subprocess.Popen(code, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "stopped" / "progress.csv").exists():
        time.sleep(0.002)
        assert process.poll() is None
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == 130 and "stopped at step" in errors and "Traceback" not in errors
    stopped_at = dusdi.load(tmp_path / "stopped").step
    assert 0 < stopped_at < 2560
    dusdi.pretrain("gunner-2d", out=tmp_path / "stopped", resume=True, progress=False)
    assert rows(tmp_path / "stopped") == rows(tmp_path / "whole")
    assert same(final_arrays(tmp_path / "stopped"), final_arrays(tmp_path / "whole"))


def test_a_run_that_is_being_written_is_left_alone(tmp_path):
    skills = dusdi.pretrain("gunner-2d", preset="debug", steps=1280, out=tmp_path, progress=False)
    assert skills.step == 1280
    with held(tmp_path), pytest.raises(UsageError, match="another process is writing the run in"):
        dusdi.pretrain("gunner-2d", steps=2560, out=tmp_path, resume=True, progress=False)
    with held(tmp_path / "nothing" / "at all"):
        pass
    assert not (tmp_path / "nothing").exists()
    assert (
        dusdi.pretrain("gunner-2d", steps=2560, out=tmp_path, resume=True, progress=False).step
        == 2560
    )


def test_resume_on_fresh_finished_and_longer_runs(tmp_path):
    out = tmp_path / "run"
    short = dusdi.pretrain(
        "gunner-2d", preset="debug", steps=1280, out=out, resume=True, progress=False
    )
    before = final_arrays(out)
    again = dusdi.pretrain("gunner-2d", out=out, resume=True, progress=False)
    assert short.step == again.step == 1280 and same(before, final_arrays(out))
    longer = dusdi.pretrain("gunner-2d", steps=2560, out=out, resume=True, progress=False)
    assert longer.step == 2560
    with pytest.raises(UsageError, match="longer but not shorter"):
        dusdi.pretrain("gunner-2d", steps=1280, out=out, resume=True, progress=False)
    dusdi.pretrain("gunner-2d", preset="debug", out=tmp_path / "whole", progress=False)
    assert rows(out) == rows(tmp_path / "whole")
    state, whole = final_arrays(out), final_arrays(tmp_path / "whole")
    assert same(state, whole)


def test_an_existing_run_is_not_overwritten(tmp_path):
    dusdi.pretrain("gunner-2d", preset="debug", steps=640, out=tmp_path, progress=False)
    with pytest.raises(UsageError, match="already holds a run"):
        dusdi.pretrain("gunner-2d", preset="debug", steps=640, out=tmp_path, progress=False)
    with pytest.raises(UsageError, match="seed = 0, not 5"):
        dusdi.pretrain("gunner-2d", seed=5, out=tmp_path, resume=True, progress=False)
    with pytest.raises(UsageError, match="preset = debug, not paper"):
        dusdi.pretrain("gunner-2d", preset="paper", out=tmp_path, resume=True, progress=False)
    with pytest.raises(UsageError, match=r"gunner-2d.*multi-particle"):
        dusdi.pretrain("multi-particle", out=tmp_path, resume=True, progress=False)


def test_a_run_killed_before_its_first_checkpoint_keeps_what_was_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(
        dusdi.loop, "train", lambda *args: (_ for _ in ()).throw(RuntimeError("killed"))
    )
    with pytest.raises(RuntimeError, match="killed"):
        dusdi.pretrain("gunner-2d", preset="debug", steps=640, seed=7, out=tmp_path, progress=False)
    monkeypatch.undo()
    skills = dusdi.pretrain("gunner-2d", out=tmp_path, resume=True, progress=False, batch_size=16)
    assert (skills.seed, skills.step, skills.config.preset, skills.config.batch_size) == (
        7,
        640,
        "debug",
        16,
    )


def test_a_run_without_a_checkpoint_does_not_stand_in_the_way(tmp_path, monkeypatch):
    monkeypatch.setattr(
        dusdi.loop, "train", lambda *args: (_ for _ in ()).throw(RuntimeError("killed"))
    )
    with pytest.raises(RuntimeError, match="killed"):
        dusdi.pretrain("multi-particle", preset="debug", out=tmp_path, progress=False)
    monkeypatch.undo()
    skills = dusdi.pretrain("gunner-2d", preset="debug", steps=640, out=tmp_path, progress=False)
    assert (
        skills.spec.name == "gunner-2d"
        and json.loads((tmp_path / "config.json").read_text())["world"]["name"] == "gunner-2d"
    )


def test_a_longer_run_killed_before_its_next_checkpoint_stays_longer(tmp_path, monkeypatch):
    dusdi.pretrain("gunner-2d", preset="debug", steps=640, out=tmp_path, progress=False)
    monkeypatch.setattr(
        dusdi.loop, "train", lambda *args: (_ for _ in ()).throw(RuntimeError("killed"))
    )
    with pytest.raises(RuntimeError, match="killed"):
        dusdi.pretrain("gunner-2d", steps=960, out=tmp_path, resume=True, progress=False)
    monkeypatch.undo()
    assert dusdi.pretrain("gunner-2d", out=tmp_path, resume=True, progress=False).step == 960


def test_rows_survive_factor_names_with_commas(tmp_path):
    world = dusdi.from_gymnasium(Sliders, {"x, y": [0, 1], "z": [2]})
    for steps in (640, 960):
        dusdi.pretrain(
            world, preset="debug", steps=steps, out=tmp_path, resume=True, progress=False
        )
    assert [row["step"] for row in rows(tmp_path)] == ["640", "960"]


def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path):
    dusdi.pretrain("gunner-2d", preset="debug", out=tmp_path / "whole", progress=False)
    dusdi.pretrain("gunner-2d", preset="debug", out=tmp_path / "run", progress=False)
    newest = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:-100])
    with pytest.warns(UserWarning, match="damaged"):
        dusdi.pretrain("gunner-2d", out=tmp_path / "run", resume=True, progress=False)
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")
    assert same(final_arrays(tmp_path / "run"), final_arrays(tmp_path / "whole"))


def test_nothing_is_traced_again_after_the_first_update():
    world = dusdi.make("gunner-2d")
    config = dusdi.config.configure("debug", {}, {})
    trainer = make_trainer(world, config)
    state = trainer.advance(trainer.init(), 20, True)
    state = trainer.advance(state, 1, False)
    traces = trainer.learner.traces["update"]
    state, _ = dusdi.loop._take_metrics(trainer, state, config)
    for iterations in (1, 7, 3):
        state = trainer.advance(state, iterations, False)
    assert trainer.learner.traces["update"] == traces


def test_a_nan_loss_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    reward = Dusdi.reward

    def breaks_late(self, state, batch, step):
        return jnp.where(step >= 1500, jnp.nan, reward(self, state, batch, step))

    monkeypatch.setattr(Dusdi, "reward", breaks_late)
    with pytest.raises(
        NonFiniteError, match=r"at step 1600: .*loss/critic.*checkpoint of step 1280"
    ):
        dusdi.pretrain("gunner-2d", preset="debug", out=tmp_path, progress=False)
    assert dusdi.load(tmp_path).step == 1280


def test_a_nan_in_a_jax_world_is_noticed(tmp_path, monkeypatch):
    from dusdi.envs.gunner import Gunner2D

    observe = Gunner2D.observe
    monkeypatch.setattr(
        Gunner2D,
        "observe",
        lambda self, s: observe(self, s).at[5].set(jnp.log(s.position[0] - 0.2)),
    )
    with pytest.raises(dusdi.DusdiError, match=r"not finite.*target state\[0\]"):
        dusdi.pretrain("gunner-2d", preset="debug", out=tmp_path, progress=False)


def test_seeds_train_together_and_differ(tmp_path):
    dusdi.pretrain("gunner-2d", preset="debug", seeds=2, seed=4, out=tmp_path, progress=False)
    first, second = dusdi.load(tmp_path), dusdi.load(tmp_path, seed=1)
    assert (first.seed, second.seed) == (4, 5)
    observation, skill = np.ones(7, np.float32), [0, 1, 2]
    assert not np.allclose(first.act(observation, skill), second.act(observation, skill))
    assert {row["seed"] for row in rows(tmp_path)} == {"4", "5"}
    with pytest.raises(UsageError, match="seeds 0 to 1"):
        dusdi.load(tmp_path, seed=2)


@pytest.mark.parametrize(
    "fields",
    [{"skill_kind": "continuous", "skill_dim": 2}, {"method": "diayn"}, {"decompose_q": False}],
)
def test_every_kind_of_skill_learns_saves_and_acts(tmp_path, fields):
    trained = dusdi.pretrain(
        "gunner-2d", preset="debug", steps=640, out=tmp_path, progress=False, **fields
    )
    loaded = dusdi.load(tmp_path)
    observation, skills = np.ones((4, 7), np.float32), trained.sample_skills(4)
    actions = loaded.act(observation, skills)
    assert actions.shape == (4, 5) and (np.abs(actions) <= 1).all()
    np.testing.assert_array_equal(actions, trained.act(observation, skills))
    np.testing.assert_allclose(loaded.act(observation[0], skills[0]), actions[0], atol=1e-6)
    result = dusdi.evaluate(loaded, steps=2000)
    assert 0 <= result.disentanglement <= 1


def test_inputs_are_dropped_once_they_had_their_chance():
    config = dusdi.config.configure("debug", {}, dict(input_limit=3, input_limit_from=30 * 16))
    trainer = make_trainer(dusdi.make("gunner-2d"), config)
    state = trainer.advance(trainer.init(), 20, True)
    for end, kept in ((30, [7, 12]), (32, [3, 3])):
        state = trainer.advance(state, end - int(state.iteration), False)
        agent = state.agent
        gains = [agent.actor["params"]["networks"]["state"]["gain"]]
        gains += [
            critic["params"]["state"]["gain"] for critic in (agent.critic, agent.target_critic)
        ]
        assert [set(np.count_nonzero(gain[..., 0], axis=0)) for gain in gains] == [
            {kept[0]},
            {kept[1]},
            {kept[1]},
        ]


@pytest.mark.parametrize(
    ("fields", "actor", "critic"),
    [
        ({}, (3, 3), (3, 3)),
        ({"method": "diayn"}, None, None),
        ({"decompose_q": False}, (3, 3), None),
        ({"actor_parts": "whole"}, None, (3, 3)),
        ({"input_limit": 7}, None, (3, 7)),  # the actor sees no more than that
    ],
)
def test_only_networks_about_one_component_drop_inputs(fields, actor, critic):
    config = dusdi.config.configure("debug", {}, {"input_limit": 3, **fields})
    agent = Learner(dusdi.make("gunner-2d").spec, config).agent
    state = agent.init(jax.random.PRNGKey(0))
    narrowed = agent.narrow(state)
    assert tuple(seen if seen is None else seen.shape for seen in narrowed.seen) == (actor, critic)
    again = agent.widen(narrowed)
    assert jax.tree.map(jnp.shape, again) == jax.tree.map(jnp.shape, state)


def test_act_refuses_what_does_not_fit():
    skills = dusdi.pretrain("gunner-2d", preset="debug", steps=640, progress=False)
    with pytest.raises(UsageError, match="7 entries"):
        skills.act(np.zeros(5), [0, 0, 0])
    with pytest.raises(UsageError, match="3 components"):
        skills.act(np.zeros(7), [0, 0])


def test_host_and_graph_worlds_share_the_learner():
    """The same sliders in both kinds: the same spec gives the same networks, so a checkpoint of one would fit the other."""
    host = make_trainer(
        dusdi.from_gymnasium(Sliders, SLIDERS), dusdi.config.configure("debug", {}, {})
    )
    state = host.restart(host.init())
    state = host.advance(state, 20, True)
    state = host.advance(state, 2, False)
    host.close()
    assert int(state.iteration) == 22 and int(state.updates) == 2
    assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves(state.metrics))
