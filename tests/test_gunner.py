"""2D Gunner: single steps worked out by hand, and its scripted expert."""

import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wrapped_worlds import settle_expert

from dusdi.envs.gunner import DEPOTS, Gunner2D, GunnerState

GUNNER = Gunner2D()
KEY = jax.random.PRNGKey(0)


def gunner_state(position, arm=(0.0, 0.0), ammo=0.0, aim=0.0):
    return GunnerState(*map(jnp.float32, (position, arm, ammo, aim)))


def test_gunner_actions_reach_their_factors():
    state = gunner_state((2.5, 2.5))
    for part, changed in ((0, [0]), (1, [1]), (2, [2]), (3, [3]), (4, [5, 6])):
        after = GUNNER.step(state, jnp.zeros(5).at[part].set(0.8), KEY)
        assert np.flatnonzero(GUNNER.observe(after) != GUNNER.observe(state)).tolist() == changed


def test_gunner_step_by_hand():
    state = gunner_state((2.0, 2.0), (-0.3, -0.05), 0.5, 0.8)
    after = GUNNER.step(state, jnp.array([0.5, -1.0, -0.4, -0.4, -0.25]), KEY)
    # The tip moves from (1.7, 1.95), 0.49 from the depot at (1.5, 1.5), to (1.79, 1.59), which is
    # 0.304 from it: one pick-up. The last target's bearing is atan2(5.25 - 1.7, 5.25 - 2.15) =
    # 0.853, and 0.853 - 0.6 = 0.253 < 0.314: a hit.
    np.testing.assert_allclose(
        GUNNER.observe(after), [2.15, 1.7, -0.36, -0.11, 0.6, 0.6, 1.0], atol=1e-6
    )


@pytest.mark.parametrize("direction, place", [(1.0, 5.0), (-1.0, 0.0)])
def test_gunner_reaches_its_limits(direction, place):
    action = jnp.full(5, direction)
    state = jax.lax.fori_loop(0, 40, lambda _, s: GUNNER.step(s, action, KEY), gunner_state((2, 2)))
    np.testing.assert_allclose(state.position, [place, place], atol=1e-6)
    np.testing.assert_allclose(state.arm, [direction * 5 / 3] * 2, atol=1e-6)
    assert float(state.aim) == pytest.approx(direction * np.pi)


@pytest.mark.parametrize(
    "position, aim, hit",
    [
        ((2.5, 2.5), -3 * np.pi / 4, 0.25),
        ((2.5, 2.5), -np.pi / 4, 0.5),
        ((2.5, 2.5), 3 * np.pi / 4, 0.75),
        ((2.5, 2.5), np.pi / 4, 1.0),
        ((2.5, 2.5), 0.0, 0.0),
        ((2.5, 2.5), np.pi / 4 + np.pi / 10 - 0.01, 1.0),
        ((2.5, 2.5), np.pi / 4 + np.pi / 10 + 0.01, 0.0),
        ((2.5, 2.5), np.pi / 4 - np.pi / 10 + 0.01, 1.0),
        ((2.5, 2.5), np.pi / 4 - np.pi / 10 - 0.01, 0.0),
        ((5.0, 0.0), 3.1, 0.25),  # the bearing is -3.094: near, the other way round
        ((0.0, 0.0), -3 * np.pi / 4, 0.25),  # in the corner, facing its target
        ((0.0, 0.0), np.pi / 4, 1.0),  # in the corner, with its target behind
    ],
)
def test_hits(position, aim, hit):
    assert GUNNER.observe(gunner_state(position, aim=aim))[6] == hit


def test_depots_fill_up_the_ammo():
    for depot in DEPOTS:
        state = gunner_state(depot - 0.6, arm=(0.6, 0.6), ammo=0.85)
        ammo = [float((state := GUNNER.step(state, jnp.zeros(5), KEY)).ammo) for _ in range(3)]
        np.testing.assert_allclose(ammo, [0.95, 1.0, 1.0], atol=1e-6)
    for arm, gained in (((0.39, 0.0), 0.1), ((0.41, 0.0), 0.0), ((0.3, 0.3), 0.0)):
        after = GUNNER.step(gunner_state((1.5, 1.5), arm), jnp.zeros(5), KEY)
        assert float(after.ammo) == pytest.approx(gained)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), skill=hnp.arrays(int, 3, elements=st.integers(0, 4)))
def test_the_gunner_expert_does_what_each_component_asks(seed, skill):
    x, y, arm_x, arm_y, _, _, hit = np.asarray(settle_expert(GUNNER)(seed, skill))
    corners = [(-1, -1), (1, -1), (-1, 1), (1, 1), (0, 0)]
    np.testing.assert_allclose([x, y], 2.5 + 2.5 * np.array(corners[skill[0]]), atol=1e-4)
    np.testing.assert_allclose([arm_x, arm_y], 5 / 3 * np.array(corners[skill[1]]), atol=1e-4)
    assert hit == [0.25, 0.5, 0.75, 1.0, 0.0][skill[2]]
