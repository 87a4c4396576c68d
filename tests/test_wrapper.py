"""Worlds compose: wrapped worlds have the same rewards, experts, ends and images in tasks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from wrapped_worlds import EdgeSlider, Mixed, MixedOnHost, Stacked, roll_out, roll_out_on_host

import dusdi
from dusdi.envs.household import Household
from dusdi.envs.particle import MultiParticle
from dusdi.envs.walker import Walker
from dusdi.errors import UsageError
from dusdi.task_evaluation import reference_returns
from dusdi.tasks import JaxTask, make_task

KEY = jax.random.PRNGKey(0)


def stack_mixed(world):
    return Stacked(Mixed(world))


def mix_stacked(world):
    return Mixed(Stacked(world))


@pytest.mark.parametrize(
    ("name", "wrap"),
    [
        ("multi-particle/food-poison-medium", Mixed),
        ("multi-particle/sequential-easy", Stacked),
        ("gunner-2d/limited", stack_mixed),
        ("gunner-2d/limited", mix_stacked),
    ],
)
def test_a_task_is_the_same_in_a_wrapped_world(name, wrap):
    plain = make_task(name)
    wrapped = make_task(name, world=wrap(dusdi.make(name.split("/")[0])))
    assert wrapped.spec.observation_size > plain.spec.observation_size
    results = [
        roll_out(task, lambda state, key, task=task: task.expert_action(state), steps=101)
        for task in (plain, wrapped)
    ]
    (state, rewards), (wrapped_state, wrapped_rewards) = results
    assert np.abs(rewards).sum() > 0
    np.testing.assert_array_equal(wrapped_rewards, rewards)
    inner = wrapped.world.unwrapped_state(wrapped_state.world)
    jax.tree.map(np.testing.assert_array_equal, inner, state.world)
    pictures = [
        task.render(jax.tree.map(lambda x: np.asarray(x[0]), found))
        for task, found in ((plain, state), (wrapped, wrapped_state))
    ]
    np.testing.assert_array_equal(*pictures)


@pytest.mark.parametrize("name", ["gunner-2d", "multi-particle"])
def test_the_expert_of_a_wrapped_world_moves_the_same_factors(name):
    """So that its DCI is the same: the wrapped observation is a known map of the other."""
    world = dusdi.make(name)
    wrapped = Mixed(world)
    skill = jnp.arange(len(world.spec.controlled)) % 5
    (state, _), (wrapped_state, _) = (
        roll_out(w, lambda state, key, w=w: w.expert(state, skill), steps=30)
        for w in (world, wrapped)
    )
    observation = np.asarray(jax.vmap(world.observe)(state))
    mixed = np.asarray(jax.vmap(wrapped.observe)(wrapped_state))
    for factor, other in zip(world.spec.factors, wrapped.spec.factors[1:], strict=True):
        rotation = wrapped.matrix[np.ix_(other.indices, factor.indices)]
        restored = mixed[:, other.indices] @ rotation
        np.testing.assert_allclose(restored, observation[:, factor.indices], atol=1e-5)
    assert [factor.name for factor in wrapped.spec.controlled] == [
        factor.name for factor in world.spec.controlled
    ]


def test_a_wrapper_passes_on_the_end_of_an_episode_and_settings():
    world = Stacked(Mixed(EdgeSlider()))
    state = world.reset(KEY)
    assert not world.terminated(state)
    for _ in range(4):
        state = world.step(state, jnp.ones(1), KEY)
    assert world.terminated(state)
    assert world.expert is None and isinstance(world.unwrapped, EdgeSlider)
    particles = Mixed(MultiParticle())
    assert particles.presets == MultiParticle.presets and particles.published_dci == {}
    with pytest.raises(UsageError, match="only one view of 'multi-particle'"):
        particles.choose_view("map")


class StayInside(JaxTask):
    """Costs 1 for each step on the positive side; the world terminates at both ends."""

    def __init__(self, world):
        super().__init__("inside", world, channels=["cost"], causal=np.ones((1, 1)), variables=[])

    def reset_variables(self, key, world):
        return ()

    def score(self, variables, world, window_ends):
        return variables, -(world[0] > 0).astype(jnp.float32)[None]

    def resample(self, variables, key):
        return variables

    def observe_variables(self, variables):
        return jnp.zeros(0)

    def label(self, variables):
        return "stay inside"


@pytest.mark.parametrize("wrap", [lambda world: world, Mixed, Stacked], ids=["plain", *"ms"])
def test_a_task_in_a_world_that_terminates(wrap):
    task = StayInside(wrap(EdgeSlider()))
    state = task.reset(KEY)
    for _ in range(4):
        assert not task.terminated(state)
        state = task.step(state, jnp.ones(1), KEY)
    assert task.terminated(state) and float(task.reward(state)[0]) == -1.0
    assert not task.has_expert
    assert float(task.observe(state)[-1]) == pytest.approx(4 / 50)  # the phase of the window
    assert task.render(state).any() and not task.world.render(state.world).any()  # the label


def test_a_task_on_the_host_is_the_same_in_a_wrapped_world():
    action = np.random.default_rng(0).uniform(-1, 1, (4, 6))
    plain = make_task("walker/goal")
    wrapped = make_task("walker/goal", world=MixedOnHost(Walker()))
    (observation, rewards), (mixed, wrapped_rewards) = (
        roll_out_on_host(task, lambda state: action, steps=60, num_envs=4)
        for task in (plain, wrapped)
    )
    assert rewards.std() > 0
    np.testing.assert_array_equal(wrapped_rewards, rewards)
    np.testing.assert_allclose(
        mixed[:, :28], observation[:, :26] @ wrapped.world.matrix.T, rtol=1e-5, atol=1e-5
    )
    np.testing.assert_array_equal(mixed[:, 28:], observation[:, 26:])


def test_the_expert_of_a_wrapped_world_on_the_host_is_the_same():
    plain = make_task("household/inspect", view="map")
    wrapped = make_task("household/inspect", world=MixedOnHost(Household("map")))
    (observation, rewards), (mixed, wrapped_rewards) = (
        roll_out_on_host(task, task.expert_action, steps=51, num_envs=3)
        for task in (plain, wrapped)
    )
    assert rewards.sum() > 0
    np.testing.assert_array_equal(wrapped_rewards, rewards)
    assert (observation.shape[1], mixed.shape[1]) == (42 + 6, 44 + 6)


def test_a_task_refuses_another_world_and_options_beside_a_world():
    with pytest.raises(UsageError, match=r"set in a Gunner2D or .*, not in 'multi-particle-mixed'"):
        make_task("gunner-2d/limited", world=Mixed(MultiParticle()))
    with pytest.raises(UsageError, match="give them to the world instead"):
        make_task("multi-particle/sequential-easy", world=MultiParticle(), agents=5)


def test_a_wrapped_world_is_pretrained_and_a_task_in_it_is_learned():
    world = Mixed(dusdi.make("gunner-2d"))
    skills = dusdi.pretrain(world, preset="debug", steps=640, progress=False)
    assert skills.spec == world.spec
    task = make_task("gunner-2d/limited", world=world)
    controller = dusdi.downstream(skills, task, preset="debug", steps=4_000, progress=False)
    assert controller.spec.name == "gunner-2d-mixed/limited"
    plain = reference_returns(make_task("gunner-2d/limited"), episodes=2, seed=0)
    np.testing.assert_array_equal(reference_returns(task, episodes=2, seed=0), plain)
    with pytest.raises(
        UsageError, match="'gunner-2d-mixed', but the task is set in 'gunner-2d', which has "
    ):
        dusdi.downstream(skills, "gunner-2d/limited", preset="debug", progress=False)
