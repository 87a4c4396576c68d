"""Learner and trainers: scanned updates, one compilation, pieces, and seeds that are runs alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import SLIDERS, Sliders, log_rows
from probes import TINY, HostTrack, Noise, Track, linear_skills, make_space, settings_for

import dusdi
from dusdi.learner import Learner
from dusdi.spaces import Box, Categorical
from dusdi.stepping import Step, derived_seed
from dusdi.trainers import make_trainer
from dusdi.training import take_metrics

KEY = jax.random.PRNGKey(0)
MIXED = {"second": "box:1"}


class PaidSliders(Sliders):
    """Sliders that pay for being in the middle."""

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, -float(np.sum(self.position**2)), *rest


def host_world(kind=Sliders):
    return dusdi.from_gymnasium(kind, SLIDERS)


def assert_close(left, right, rtol=1e-5, atol=1e-6):
    def compare(a, b):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=atol)

    jax.tree.map(compare, left, right)


# --- updates ---


@pytest.fixture(scope="module")
def trained():
    """A trainer with four updates per iteration, and its state after ten iterations.

    Its updates were traced once so far.
    """
    fields = {**TINY, "steps_per_update": 1, "components": MIXED}
    trainer = make_trainer(Noise(), settings_for(Noise.spec, **fields))
    state = trainer.advance(trainer.init(), 6, random=True)
    state = trainer.advance(state, 4, random=False)
    assert trainer.learner.traces["update"] == 1
    return trainer, state


@pytest.mark.slow
def test_scanned_updates_are_those_one_by_one(trained):
    trainer, state = trained
    learner = trainer.learner
    scanned = jax.jit(learner.update)(state)
    key, *keys = jax.random.split(state.key, 5)
    once = jax.jit(learner._update_once)
    single = state
    sums = dict(state.metrics)
    for update_key in keys:
        learned, metrics = once(single, update_key)
        single = single.replace(**learned)
        sums |= {name: sums[name] + value for name, value in metrics.items()}
    assert_close(scanned.agent, single.agent)
    assert_close(scanned.objective, single.objective)
    assert_close(scanned.metrics, sums, rtol=1e-4, atol=1e-5)
    assert int(scanned.updates) == int(state.updates) + 4
    np.testing.assert_array_equal(scanned.key, key)


def test_the_program_does_not_grow_with_the_number_of_updates():
    sizes = []
    for num_envs in (4, 32):
        fields = {**TINY, "num_envs": num_envs, "steps_per_update": 1}
        trainer = make_trainer(Track(), settings_for(Track.spec, **fields))
        program = jax.make_jaxpr(trainer.learner.update)(trainer.shapes())
        sizes.append(len(program.eqns))
    assert sizes[0] == sizes[1]


def test_a_run_compiles_its_updates_once(trained):
    trainer, state = trained
    copy = jax.tree.map(jnp.copy, state)
    before = trainer.learner.traces["update"]
    copy = trainer.advance(copy, 1, random=False)
    copy, _ = take_metrics(trainer, copy)
    trainer.advance(copy, 3, random=False)
    assert trainer.learner.traces["update"] == before


def test_where_pieces_end_does_not_matter(trained):
    trainer, state = trained
    whole = trainer.advance(jax.tree.map(jnp.copy, state), 5, random=False)
    pieces = jax.tree.map(jnp.copy, state)
    for count in (1, 3, 1):
        pieces = trainer.advance(pieces, count, random=False)
    jax.tree.map(np.testing.assert_array_equal, whole, pieces)


def test_the_host_compiles_its_updates_once():
    settings = settings_for(Track.spec, **TINY)
    trainer = make_trainer(HostTrack(), settings)
    state = trainer.restart(trainer.init())
    state = trainer.advance(state, 4, random=True)
    for _ in range(3):
        state = trainer.advance(state, 2, random=False)
        state = trainer.restart(state)
    assert trainer.learner.traces["update"] == 1
    assert int(state.iteration) == 10
    trainer.close()


# --- what is remembered ---


@pytest.fixture(scope="module")
def learner():
    return Learner(Track.spec, settings_for(Track.spec, **TINY, components=MIXED))


def step_of(done, terminated=None, n=4):
    terminated = done if terminated is None else terminated
    return Step(
        next_observation=jnp.full((n, 2), 2.0),
        reward=jnp.ones((n, 2)),
        terminated=jnp.array(terminated),
        done=jnp.array(done),
        observation=jnp.full((n, 2), 3.0),
    )


def test_a_step_is_remembered_as_it_was(learner):
    state = jax.jit(lambda: learner.init(KEY, (), jnp.ones((4, 2))))()
    state = state.replace(skill_age=jnp.array([0, 3, 4, 1]))
    action = jnp.full((4, 2), 0.5)
    ends = step_of([True, False, False, True], [True, False, False, False])
    after = jax.jit(learner.record)(state, action, ends)
    rows = jax.tree.map(lambda x: np.asarray(x[:4]), after.replay)
    np.testing.assert_array_equal(rows.observation, 1)
    np.testing.assert_array_equal(rows.action, 0.5)
    np.testing.assert_array_equal(rows.next_observation, 2)
    np.testing.assert_array_equal(rows.terminated, [True, False, False, False])
    np.testing.assert_array_equal(rows.skill, state.skill)
    np.testing.assert_array_equal(rows.skill_age, [1, 4, 5, 2])
    # Skills of five steps: they are drawn anew where they are used up or the episode is done.
    np.testing.assert_array_equal(after.skill_age, [0, 4, 0, 0])
    np.testing.assert_array_equal(after.skill[1], state.skill[1])
    assert (np.asarray(after.skill)[[0, 2, 3], 1] != np.asarray(state.skill)[[0, 2, 3], 1]).all()
    np.testing.assert_array_equal(after.observation, 3)
    np.testing.assert_allclose(after.normaliser.mean, 2)
    assert int(after.iteration) == 1


def test_returns_of_flat_policies_by_hand():
    learner = Learner(Track.spec, settings_for(Track.spec, "sac", **TINY))
    state = jax.jit(lambda: learner.init(KEY, (), jnp.ones((4, 2))))()
    record = jax.jit(learner.record)
    action = jnp.zeros((4, 2))
    for done in ([False] * 4, [True, False, False, False], [False, True, False, False]):
        state = record(state, action, step_of(done))
    # Two channels pay 1 each: 4 after two steps, 6 after three.
    assert (state.metrics["return"], state.metrics["episodes"]) == (10, 2)
    np.testing.assert_array_equal(state.earned, [2, 0, 6, 6])


def test_skills_start_at_ages_spread_over_their_length(learner):
    many = Learner(Track.spec, settings_for(Track.spec, **{**TINY, "num_envs": 64,
                                                           "steps_per_update": 64}))  # fmt: skip
    skill, age = jax.jit(many.first_skills)(KEY)
    assert set(np.asarray(age).tolist()) == set(range(5))
    assert skill.shape == (64, 2)


# --- seeds ---


def first_rows(rows):
    """The first log row of each seed, with numbers."""
    found = {}
    for row in rows:
        found.setdefault(int(row["seed"]), row)
    return {
        seed: {name: float(value) for name, value in row.items()} for seed, row in found.items()
    }


def assert_seeds_agree(run, tmp_path):
    """`run(out, seed=..., seeds=...)` of two seeds logs what each seed logs alone."""
    run(tmp_path / "both", seed=5, seeds=2)
    both = first_rows(log_rows(tmp_path / "both"))
    assert sorted(both) == [5, 6]
    alone = {}
    for seed in (5, 6):
        run(tmp_path / str(seed), seed=seed, seeds=1)
        alone |= first_rows(log_rows(tmp_path / str(seed)))
    for seed in (5, 6):
        assert both[seed] == pytest.approx(alone[seed], rel=1e-4, abs=1e-6, nan_ok=True)
    different = [name for name in both[5] if both[5][name] != both[6][name]]
    assert len(different) > 5


@pytest.mark.slow
@pytest.mark.parametrize("make", [Noise, host_world], ids=["compiled", "host"])
def test_several_seeds_of_skill_discovery_are_the_runs_alone(make, tmp_path):
    def run(out, **fields):
        world = make()
        names = [factor.name for factor in world.spec.controlled]
        mixed = {names[1]: "sphere:2"}
        options = {**TINY, "steps": 32, "components": mixed, **fields}
        dusdi.pretrain(world, preset="debug", out=out, progress=False, **options)

    assert_seeds_agree(run, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("make", [Noise, lambda: host_world(PaidSliders)], ids=["compiled", "host"])
def test_several_seeds_on_a_task_are_the_runs_alone(make, tmp_path):
    task = make()
    space = make_space(a=Categorical(2), b=Box(task.spec.action_size))
    matrix = np.random.default_rng(0).normal(size=(space.size, task.spec.action_size))
    skills = linear_skills(task.spec, space, matrix, 5)

    def run(out, **fields):
        options = dict(steps=160, num_envs=4, rollout_length=4, batch_size=8, log_every=80)
        dusdi.downstream(skills, task, preset="debug", out=out, progress=False, **options, **fields)

    assert_seeds_agree(run, tmp_path)


def test_restarts_of_different_seeds_and_iterations_differ():
    seeds = {derived_seed(seed, iteration) for seed in range(20) for iteration in range(20)}
    assert len(seeds) == 400
    assert max(seeds) < 2**31


def test_episodes_are_staggered():
    trainer = make_trainer(Track(), settings_for(Track.spec, **TINY))
    np.testing.assert_array_equal(trainer.init().world.age, [0, 50, 100, 150])


def test_returns_of_a_task_are_those_of_whole_episodes():
    """Episodes of ten steps that pay 3 per step start at ages 0, 2, 5 and 7."""

    class Steady(Track):
        def reward(self, state):
            return jnp.array([1.0, 2.0])

    settings = settings_for(Track.spec, "sac", **TINY, episode_length=10)
    trainer = make_trainer(Steady(edge=99), settings)
    state = trainer.init()
    np.testing.assert_array_equal(state.world.age, [0, 2, 5, 7])
    counted = []
    for _ in range(3):
        state = trainer.advance(state, 6, True)
        counted.append((float(state.metrics["return"]), float(state.metrics["episodes"])))
    # Whole episodes end in steps 10, 13, 15 and 18; those that end before began in the middle.
    assert counted == [(0, 0), (30, 1), (120, 4)]
