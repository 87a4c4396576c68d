"""DMC-Walker: the same walker as dm_control's, only many at a time."""

import importlib.util
import subprocess
import sys

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import dusdi
from dusdi import checkpoint
from dusdi.envs.physics import Simulation, load_mujoco
from dusdi.envs.walker import SUBSTEPS, Walker, WalkerState
from dusdi.errors import UsageError
from dusdi.tasks.walker import GOAL_WINDOWS, GoalVariables

mujoco = load_mujoco("walker")


@pytest.fixture(scope="module")
def model():
    return Walker().model


@pytest.fixture(scope="module")
def theirs():
    if sys.version_info >= (3, 13):
        pytest.importorskip("dm_control", reason="it needs labmaze, which has no wheels here")
    from dm_control import suite

    return suite.load("walker", "run", task_kwargs={"random": 0})


def seen_by(physics):
    """dm_control's observation in our order, and the two entries it does not have."""
    velocity = physics.velocity()
    place = [physics.data.qpos[1], physics.torso_height(), physics.horizontal_velocity()]
    return np.concatenate([place, velocity[[1, 0]], physics.orientations(), velocity[2:]])


#: How the names of a compiled model's fields begin that are about pictures, sensors and memory.
NOT_PHYSICS = (
    "bvh_", "cam_", "geom_matid", "geom_rgba", "light_", "mat_", "name", "nbuffer", "ncam", "nmat",
    "nnames", "nsensor", "ntex", "sensor_", "signature", "tex_",
)  # fmt: skip


def physics_of(model):
    """The numbers of a compiled model that matter to the physics, and the names of its parts."""
    fields = {}
    for owner, prefix in ((model, ""), (model.opt, "opt.")):
        for name in dir(owner):
            value = getattr(owner, name)
            number = isinstance(value, np.ndarray | int | float)
            if number and not name.startswith(("_", *NOT_PHYSICS)):
                fields[prefix + name] = np.array(value)
    # planes have no end, so it does not matter where along x the floor is drawn
    fields["geom_pos"][0, 0] = fields["geom_size"][0] = fields["geom_sameframe"][0] = 0
    for kind, count in (("body", model.nbody), ("jnt", model.njnt), ("geom", model.ngeom)):
        fields[kind] = np.array([getattr(model, kind)(i).name for i in range(count)])
    return fields


def test_the_compiled_model_is_that_of_dm_control(theirs, model):
    ours, expected = physics_of(model), physics_of(theirs.physics.model.ptr)
    assert ours.keys() == expected.keys()
    assert {"body_mass", "dof_damping", "actuator_gear", "opt.timestep"} < expected.keys()
    for name in expected:
        np.testing.assert_array_equal(ours[name], expected[name], err_msg=name)


def test_observation_step_and_reward_agree_with_dm_control(theirs):
    ours, run = Walker().vector(1), dusdi.make_task("walker/run")
    ours.reset(0)
    rng = np.random.default_rng(0)
    score = jax.jit(run.score)
    for _ in range(3):
        theirs.reset()
        for _ in range(100):
            # the same state to start from, then the same action
            ours._simulation.qpos[0] = theirs.physics.data.qpos
            ours._simulation.qvel[0] = theirs.physics.data.qvel
            action = rng.uniform(-1, 1, 6)
            observation, terminated, truncated = ours.step(action[None])
            reward = theirs.step(action).reward
            np.testing.assert_allclose(
                observation[0], seen_by(theirs.physics), rtol=1e-5, atol=1e-5
            )
            state = jax.tree.map(lambda x: x[0], ours.state())
            np.testing.assert_allclose(score((), state, False)[1], [reward], rtol=1e-5, atol=1e-6)
            assert not terminated[0] and not truncated[0]


def test_episodes_start_as_in_dm_control_and_follow_the_seed(model):
    vector = Walker().vector(500)
    first = vector.reset(seed=3)
    start = vector._simulation.qpos.copy()
    low, high = model.jnt_range[3:].T
    assert (start[:, :2] == 0).all() and (vector._simulation.qvel == 0).all()
    assert (start[:, 3:] >= low).all() and (start[:, 3:] <= high).all()
    np.testing.assert_allclose(start[:, 3:].mean(0), (low + high) / 2, atol=0.1)
    np.testing.assert_allclose(np.abs(start[:, 2]).max(), np.pi, atol=0.05)
    some = np.arange(500) < 2
    after = vector.reset(mask=some)
    assert (after[~some] == first[~some]).all() and (after[some] != first[some]).any()
    np.testing.assert_array_equal(vector.reset(seed=3), first)


def test_environments_are_independent(model, all_cores):
    """Threads share the work, and nothing else."""
    actions = np.random.default_rng(0).uniform(-1, 1, (20, 7, 6))
    many, one = Simulation(model, 7, SUBSTEPS), Simulation(model, 1, SUBSTEPS)
    for action in actions:
        many.step(action)
        one.step(action[4:5])
    np.testing.assert_array_equal(many.qpos[4], one.qpos[0])
    many.close(), one.close()


def test_the_goal_moves_on_after_five_seconds_and_pays_for_being_near():
    task = dusdi.make_task("walker/goal")
    goal = GoalVariables(jnp.float32(1.0), jnp.float32(0.0), jnp.int32(0))

    def at(x):
        return WalkerState(jnp.float32(x), height=None, upright=None, centre_speed=None)

    def reward(x):
        return float(task.score(goal, at(x), False)[1][0])

    assert [reward(x) for x in (1.0, 1.3, 0.7, 3.0, -2.0)] == pytest.approx(
        [1, 1, 1, 0, 0], abs=1e-6
    )
    assert reward(1.3 + 0.85) == pytest.approx(0.5)
    scored, _ = task.score(goal, at(0.25), True)
    np.testing.assert_allclose(task.observe_variables(scored), [1.0, 0.75])
    assert task.label(scored) == "goal at 1.0 m, +0.8 m from here"
    for window in range(GOAL_WINDOWS):
        assert float(scored.place) == 1.0, window
        scored = task.resample(scored, jax.random.PRNGKey(window))
    assert 0 < abs(float(scored.place) - 1.0) <= 2.0 and int(scored.windows) == 0
    np.testing.assert_allclose(scored.distance, scored.place - 0.25, rtol=1e-6)


def test_a_task_on_the_host_adds_to_the_observation_and_resets_what_is_asked():
    task = dusdi.make_task("walker/goal")
    vector = task.vector(3)
    plain = Walker().vector(3)
    observation = vector.reset(seed=0)
    np.testing.assert_array_equal(observation[:, :26], plain.reset(seed=0))
    np.testing.assert_array_equal(observation[:, 28], 0.0)
    goals = observation[:, 26].copy()
    assert (np.abs(goals) <= 2).all() and len(set(goals)) == 3
    for _ in range(5):
        observation, _, _ = vector.step(np.zeros((3, 6)))
    np.testing.assert_allclose(observation[:, 28], 0.1)  # the phase of the window
    distance = np.abs(goals - observation[:, 0])
    np.testing.assert_allclose(
        vector.rewards()[:, 0], np.clip(1 - (distance - 0.3) / 1.7, 0, 1), atol=1e-5
    )
    some = np.array([False, True, False])
    after = vector.reset(mask=some)
    assert (after[~some] == observation[~some]).all()
    assert after[1, 26] != goals[1] and after[1, 28] == 0 and after[1, 0] == 0
    np.testing.assert_array_equal(vector.reset(seed=0)[:, 26], goals)


def test_gymnasium_accepts_it():
    check_env(gymnasium.make("dusdi/Walker-v0").unwrapped, skip_render_check=True)


@pytest.mark.parametrize("agent", ["sac", "ppo"])
def test_a_run_that_is_stopped_at_a_checkpoint_goes_on_bit_for_bit(tmp_path, agent):
    skills = (
        dusdi.pretrain("walker", preset="debug", steps=640, progress=False)
        if agent == "ppo"
        else None
    )
    half = {"sac": 960, "ppo": 4_000}[agent]
    options = {"agent": agent, "preset": "debug", "progress": False, "checkpoint_every": half}
    dusdi.downstream(skills, "walker/goal", out=tmp_path / "whole", steps=2 * half, **options)
    dusdi.downstream(skills, "walker/goal", out=tmp_path / "cut", steps=half, **options)
    dusdi.downstream(
        skills, "walker/goal", out=tmp_path / "cut", steps=2 * half, resume=True, **options
    )
    whole, cut = (
        checkpoint.load_newest(tmp_path / name / "checkpoints").arrays for name in ("whole", "cut")
    )
    assert whole.keys() == cut.keys()
    assert [name for name in whole if whole[name].tobytes() != cut[name].tobytes()] == []


def test_agents_of_tasks_with_physics_take_fewer_steps_and_smaller_rollouts():
    ours = dusdi.make_task("walker/run").task_presets["fast"]
    others = dusdi.make_task("multi-particle/sequential-hard").task_presets["fast"]
    for agent in ("ppo", "sac"):
        assert ours[agent]["steps"] < others[agent]["steps"]
    assert ours["ppo"]["rollout_length"] == 2


def test_the_state_is_what_the_observation_shows():
    vector = Walker().vector(4)
    vector.reset(0)
    observation, _, _ = vector.step(np.random.default_rng(0).uniform(-1, 1, (4, 6)))
    state = vector.state()
    np.testing.assert_allclose(np.stack(state, axis=1), observation[:, [0, 1, 5, 2]], rtol=1e-6)
    vector.step(np.ones((4, 6)))
    assert (state.x != vector.state().x).any()  # a state is not changed by the next step


def test_the_caller_counts_the_steps_of_an_episode():
    vector = Walker().vector(1)
    vector.reset(0)
    ends = [vector.step(np.zeros((1, 6)))[1:] for _ in range(1001)]
    assert not np.any(ends)
    env = gymnasium.make("dusdi/Walker-v0")
    env.reset(seed=0)
    truncated = [env.step(np.zeros(6, np.float32))[3] for _ in range(1000)]
    assert truncated == [False] * 999 + [True]


def test_pictures_show_the_walker_or_say_what_to_install():
    vector = Walker().vector(2)
    vector.reset(0)
    try:
        picture = vector.render(1)
    except UsageError as error:
        assert "apt install" in str(error)
        pytest.skip("no EGL and no OSMesa here")
    assert picture.shape == (480, 480, 3) and picture.std() > 20
    vector.close()


def test_without_graphics_the_error_says_what_to_install():
    code = """
import ctypes.util
ctypes.util.find_library = lambda name: None  # neither EGL nor OSMesa
import dusdi
v = dusdi.make('walker').vector(1)
v.reset(0), v.step([[0] * 6])
print('steps')
v.render()
"""
    done = subprocess.run([sys.executable, "-c", code], env={}, capture_output=True, text=True)
    assert (
        done.stdout == "steps\n"
        and "UsageError: MuJoCo can't draw here" in done.stderr
        and "MUJOCO_GL=osmesa" in done.stderr
    )


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"'walker' needs .* 'mujoco'.*install 'dusdi\[mujoco\]'"):
        dusdi.make("walker").vector(1)


def test_it_does_not_need_dm_control(monkeypatch):
    """Which does not install on every Python."""
    monkeypatch.setitem(sys.modules, "dm_control", None)
    Walker().check_installed()
    assert Walker().vector(1).reset(0).shape == (1, 26)
