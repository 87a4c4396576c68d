import gymnasium
import jax
import numpy as np
import pytest

from dusdi.errors import UsageError
from dusdi.skills import Continuous, Discrete


def test_discrete_encoding_is_one_hot_per_component():
    space = Discrete(components=2, values=3)
    np.testing.assert_array_equal(space.encode(np.array([[0, 2]])), [[1, 0, 0, 0, 0, 1]])
    assert space.as_gymnasium() == gymnasium.spaces.MultiDiscrete([3, 3])
    assert space.log_prior == pytest.approx(-1.0986123)


def test_continuous_encoding_is_the_skill_itself():
    space = Continuous(components=2, dim=2)
    np.testing.assert_array_equal(space.encode(np.array([[[1, 2], [3, 4]]])), [[1, 2, 3, 4]])
    assert space.log_prior == pytest.approx(-1.3862944)


@pytest.mark.parametrize("space", [Discrete(3, 5), Continuous(3, 2)])
def test_samples_are_uniform_and_valid(space):
    skills = np.asarray(space.sample(jax.random.PRNGKey(0), 20_000))
    checked = space.check(skills[:100])
    np.testing.assert_array_equal(checked, skills[:100])
    if isinstance(space, Discrete):
        shares = np.stack([(skills == value).mean(0) for value in range(5)])
        np.testing.assert_allclose(shares, 0.2, atol=0.015)
    else:
        np.testing.assert_allclose(skills.mean(0), 0, atol=0.02)
        np.testing.assert_allclose(skills.std(0), 3**-0.5, atol=0.01)


@pytest.mark.parametrize("skill", [[0, 1], [0, 1, 5], [0, 1, -1], [0, 1, 0.5]])
def test_bad_discrete_skills_are_refused(skill):
    with pytest.raises(UsageError):
        Discrete(3, 5).check(skill)


@pytest.mark.parametrize("skill", [[0.0, 1.0], [0, 0, 0, 0, 0, 2.0], [0, 0, 0, 0, 0, np.nan]])
def test_bad_continuous_skills_are_refused(skill):
    with pytest.raises(UsageError):
        Continuous(3, 2).check(skill)
