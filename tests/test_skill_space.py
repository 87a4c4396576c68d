"""Skills made of components: where each is stored, and that mixed kinds keep their order."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import make_space

from dusdi.errors import UsageError
from dusdi.skill_space import SkillSpace, idle_components
from dusdi.spaces import Box, Categorical, Sphere
from dusdi.types import OneHot

KEY = jax.random.PRNGKey(0)
PLAIN = make_space(a=Categorical(3), b=Categorical(3))
MIXED = make_space(
    a=Categorical(3), b=Box(2), c=Sphere(3), d=Categorical(3), e=Box(1), f=Categorical(4), g=Box(2)
)
EMPTY = SkillSpace(())


def test_columns_and_inputs_follow_each_other_by_hand():
    # widths 1 2 3 1 1 1 2 and sizes 3 2 3 3 1 4 2
    starts = [(part.start, part.stop) for part in MIXED.columns]
    assert starts == [(0, 1), (1, 3), (3, 6), (6, 7), (7, 8), (8, 9), (9, 11)]
    starts = [(part.start, part.stop) for part in MIXED.inputs]
    assert starts == [(0, 3), (3, 5), (5, 8), (8, 11), (11, 12), (12, 16), (16, 18)]
    assert (MIXED.width, MIXED.size, len(MIXED)) == (11, 18, 7)
    owner = [0] * 3 + [1] * 2 + [2] * 3 + [3] * 3 + [4] + [5] * 4 + [6] * 2
    np.testing.assert_array_equal(MIXED.owner, owner)


def test_groups_are_of_equal_spaces():
    assert [group.space for group in MIXED.groups] == [
        Categorical(3), Box(2), Sphere(3), Box(1), Categorical(4)
    ]  # fmt: skip
    assert [group.members.tolist() for group in MIXED.groups] == [[0, 3], [1, 6], [2], [4], [5]]
    np.testing.assert_array_equal(MIXED.groups[1].columns, [[1, 2], [9, 10]])
    np.testing.assert_array_equal(MIXED.groups[0].inputs, [[0, 1, 2], [8, 9, 10]])


def test_skills_are_stored_compactly():
    single = make_space(skill=Categorical(4096))
    skills = single.sample(KEY, 10)
    assert (skills.shape, skills.dtype) == ((10, 1), jnp.int32)
    assert PLAIN.sample(KEY, 10).dtype == PLAIN.dtype == np.int32
    assert MIXED.sample(KEY, 10).dtype == MIXED.dtype == np.float32


def test_encoding_is_that_of_the_components_one_after_the_other():
    np.testing.assert_array_equal(PLAIN.encode(np.array([[0, 2]])), [[1, 0, 0, 0, 0, 1]])
    skills = np.asarray(MIXED.sample(KEY, 20))
    for xp in (np, jnp):
        parts = [
            space.encode(skills[:, columns], xp)
            for space, columns in zip(MIXED.spaces, MIXED.columns, strict=True)
        ]
        np.testing.assert_array_equal(MIXED.encode(skills, xp), np.concatenate(parts, axis=1))


@pytest.mark.parametrize("space", [PLAIN, MIXED], ids=["plain", "mixed"])
def test_taking_apart_and_putting_together_are_inverse(space):
    skills = np.asarray(space.sample(KEY, 6))
    assert np.array_equal(space.check(skills), skills)
    for xp in (np, jnp):
        parts = [space.gather(xp.asarray(skills), group) for group in space.groups]
        np.testing.assert_array_equal(space.join(parts, xp), skills)
        for part, group in zip(parts, space.groups, strict=True):
            assert part.shape == (6, len(group.members), group.space.width)
    numbers = jnp.arange(6.0 * len(space)).reshape(6, -1)
    by_group = [numbers[:, group.members] for group in space.groups]
    np.testing.assert_array_equal(space.arrange(by_group), numbers)
    code = space.encode(skills)
    for part, group in zip(space.split(code), space.groups, strict=True):
        for i, member in enumerate(group.members):
            np.testing.assert_array_equal(part[:, i], code[:, space.inputs[member]])


def test_each_component_is_drawn_from_its_own_space():
    skills = np.asarray(MIXED.sample(KEY, 5_000))
    for space, columns in zip(MIXED.spaces, MIXED.columns, strict=True):
        assert space.check(skills[:, columns])
    correlation = np.corrcoef(skills.T)
    assert np.abs(correlation - np.eye(11)).max() < 0.06  # independent of each other


@pytest.mark.parametrize("space", [PLAIN, MIXED, EMPTY, make_space(a=Box(2))])
def test_networks_see_encoded_skills(space):
    skills = space.sample(KEY, 4)
    np.testing.assert_array_equal(space.network_input(skills), space.encode(skills))


def test_a_single_category_is_looked_up():
    found = make_space(z=Categorical(7)).network_input(jnp.array([[3], [6]]))
    assert isinstance(found, OneHot) and found.size == 7
    np.testing.assert_array_equal(found.places, [3, 6])


def test_gymnasium_spaces():
    assert PLAIN.to_gymnasium() == gymnasium.spaces.MultiDiscrete([3, 3])
    assert make_space(z=Categorical(7)).to_gymnasium() == gymnasium.spaces.Discrete(7)
    assert MIXED.to_gymnasium() == gymnasium.spaces.Box(-1.0, 1.0, (18,), np.float32)


@pytest.mark.parametrize(
    "space", [PLAIN, MIXED, make_space(a=Box(2)), make_space(a=Sphere(2), b=Categorical(2))]
)
def test_encoded_skills_are_actions_that_stand_for_them(space):
    skills = np.asarray(space.sample(KEY, 30))
    actions = skills if space.dtype == np.int32 else space.encode(skills, np)
    for action in actions[:3]:
        assert space.to_gymnasium().contains(action)
    np.testing.assert_allclose(space.from_gymnasium(actions), skills, atol=1e-6)
    np.testing.assert_allclose(space.from_gymnasium(actions[0]), skills[0], atol=1e-6)


def test_actions_of_a_single_category_are_numbers_however_many_there_are():
    space = make_space(z=Categorical(7))
    np.testing.assert_array_equal(space.from_gymnasium(3), [3])
    np.testing.assert_array_equal(space.from_gymnasium(np.array([3])), [[3]])
    np.testing.assert_array_equal(space.from_gymnasium(np.array([3, 6])), [[3], [6]])


def test_any_action_stands_for_a_skill():
    sampler = MIXED.to_gymnasium()
    sampler.seed(0)
    skills = MIXED.from_gymnasium(np.stack([sampler.sample() for _ in range(20)]))
    MIXED.check(skills)
    MIXED.check(MIXED.from_gymnasium(np.zeros(18)))


@pytest.mark.parametrize("action", [np.zeros(17), np.full(18, np.nan)])
def test_actions_that_are_not_are_refused(action):
    with pytest.raises(UsageError, match="18 finite numbers"):
        MIXED.from_gymnasium(action)


@pytest.mark.parametrize("space", [PLAIN, MIXED, EMPTY], ids=["plain", "mixed", "none"])
def test_json_round_trip(space):
    assert SkillSpace.from_json(space.to_json()) == space


def test_names_for_people():
    assert str(PLAIN) == "2 x categorical:3"
    assert str(make_space(a=Box(2), b=Categorical(3))) == "box:2, categorical:3"
    assert str(EMPTY) == "none"
    assert PLAIN.describe() == "2 components, each whole numbers from 0 to 2"


@pytest.mark.parametrize(
    "skill", [[0], [0, 3], [0, -1], [0, 0.5], "ab", None, [[0], [1, 2]], [True, False]]
)
def test_bad_categories_are_refused(skill):
    with pytest.raises(UsageError, match="whole numbers from 0 to 2"):
        PLAIN.check(skill)


def test_bad_mixed_skills_are_refused_with_the_component_named():
    good = np.asarray(MIXED.sample(KEY, 1))[0]
    for column, value, name in [(0, 3, "a"), (1, 1.5, "b"), (4, 5.0, "c"), (7, np.nan, "e")]:
        bad = good.copy()
        bad[column] = value
        with pytest.raises(UsageError, match=f"component '{name}'"):
            MIXED.check(bad)


def test_checked_skills_have_the_stored_type():
    assert PLAIN.check([0.0, 2.0]).dtype == np.int32
    assert make_space(a=Box(1), b=Categorical(2)).check([0, 1]).dtype == np.float32


def test_flat_policies_have_skills_of_nothing():
    assert EMPTY.sample(KEY, 3).shape == (3, 0)
    assert EMPTY.encode(np.zeros((3, 0), np.int32)).shape == (3, 0)
    assert EMPTY.check(np.zeros((3, 0))).shape == (3, 0)
    assert (EMPTY.width, EMPTY.size) == (0, 0)


def test_idle_components_are_those_near_chance_in_the_mean_over_seeds():
    space = make_space(a=Categorical(5), b=Box(1), c=Sphere(2), d=Categorical(5))
    rows = [
        {"accuracy/a": 0.20, "explained_variance/b": 0.05, "cosine/c": 0.9, "accuracy/d": 0.1},
        {"accuracy/a": 0.24, "explained_variance/b": 0.07, "cosine/c": 0.8, "accuracy/d": 0.9},
    ]
    # accuracy 0.22 of chance 0.2, explained variance 0.06 of 0; the mean of d is 0.5
    assert idle_components(space, rows) == {
        "a": "accuracy 0.22, chance 0.20",
        "b": "explained variance 0.06, chance 0.00",
    }
