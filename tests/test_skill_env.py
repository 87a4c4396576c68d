"""Skills as the actions of Gymnasium environments, for other people's agents."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from lights import Lights, switches
from probes import linear_skills, make_space

import dusdi
from dusdi.errors import UsageError
from dusdi.spaces import Categorical

pytestmark = [
    pytest.mark.filterwarnings("ignore:the skills were learned in another world"),
    pytest.mark.filterwarnings("ignore:.*A Box observation space"),
]


def test_skill_env_is_a_sound_gymnasium_environment(gunner_run):
    env = dusdi.SkillEnv("gunner-2d/unlimited", gunner_run, render_mode="rgb_array")
    assert env.action_space == gymnasium.spaces.MultiDiscrete([5, 5, 5])
    check_env(env, skip_render_check=True)
    first, _ = env.reset(seed=3)
    second, _ = env.reset(seed=3)
    np.testing.assert_array_equal(first, second)
    truncated = [env.step(env.action_space.sample())[3] for _ in range(20)]
    assert truncated == [False] * 19 + [True]
    assert env.render().shape == (480, 480, 3)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step([0, 0, 0])
    env.reset()
    with pytest.raises(UsageError, match=r"an action here has shape \(3,\), not \(1, 3\)"):
        env.step([[0, 0, 0]])
    with pytest.raises(UsageError, match="0 to 4"):
        env.step([5, 0, 0])
    with pytest.raises(UsageError, match="rgb_array"):
        dusdi.SkillEnv("gunner-2d/unlimited", gunner_run, render_mode="human")


def test_a_step_earns_the_mean_of_what_its_skill_earns():
    """A skill of 4 steps in an episode of 10: the third one counts 2 of its 4 steps."""
    env = dusdi.SkillEnv(Lights(), switches(skill_length=4))
    wanted = env.reset(seed=0)[0][3:].astype(int)
    rewards = []
    for _ in range(3):
        _, reward, terminated, truncated, info = env.step(wanted)
        rewards.append(reward)
    assert rewards == [3.0, 3.0, 1.5] and truncated and not terminated
    assert [info[f"reward/{name}"] for name in "abc"] == [0.5, 0.5, 0.5]


def test_a_single_component_is_a_plain_number():
    matrix = np.random.default_rng(0).normal(size=(125, 5))
    space = make_space(all=Categorical(125))
    skills = linear_skills(dusdi.make("gunner-2d").spec, space, matrix, skill_length=50)
    env = dusdi.SkillEnv("gunner-2d/limited", skills)
    assert env.action_space == gymnasium.spaces.Discrete(125)
    env.reset(seed=0)
    assert env.step(7)[0].shape == env.observation_space.shape
    envs = dusdi.SkillVectorEnv("gunner-2d/limited", skills, num_envs=1)
    envs.reset(seed=0)
    assert envs.step(envs.action_space.sample())[0].shape == envs.observation_space.shape


def test_many_environments_reset_in_the_step_that_ends_an_episode():
    envs = dusdi.SkillVectorEnv(Lights(), switches(skill_length=5), num_envs=3)
    observation, _ = envs.reset(seed=0)
    wanted = observation[:, 3:].astype(int)
    choice = np.array([wanted[0], 1 - wanted[1], [1, 0, 0]])
    right = (choice == wanted).sum(1)  # lamps as wanted: 3, 0, and whatever is drawn
    _, reward, terminated, truncated, info = envs.step(choice)
    np.testing.assert_allclose(reward, right)
    assert not terminated.any() and not truncated.any() and "final_obs" not in info
    observation, reward, terminated, truncated, info = envs.step(choice)
    np.testing.assert_allclose(reward, right)
    assert truncated.all() and not terminated.any()
    np.testing.assert_array_equal(np.stack(info["final_obs"])[:, :3], choice)
    np.testing.assert_array_equal(observation[:, :3], 0)  # lamps are off in a new episode
    total = sum(info[f"reward/{name}"] for name in "abc")
    np.testing.assert_allclose(total, reward)
    envs.close()
