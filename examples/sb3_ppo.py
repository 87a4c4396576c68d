"""Stable-Baselines3's PPO on dusdi's skills: any agent that speaks Gymnasium can choose them.

pip install stable-baselines3
dusdi pretrain gunner-2d --out runs/gunner
python examples/sb3_ppo.py runs/gunner gunner-2d/unlimited --steps 40000
"""

import argparse

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

import dusdi


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="the folder of a run of `dusdi pretrain`")
    parser.add_argument("task", help="a task of the same world, see `dusdi envs`")
    parser.add_argument("--steps", type=int, default=40_000, help="high-level steps")
    options = parser.parse_args(arguments)

    skills = dusdi.load(options.run)
    envs = make_vec_env(lambda: dusdi.SkillEnv(options.task, skills), n_envs=4)
    print("actions:", envs.action_space)

    # The paper's settings, with a learning rate for a short run
    agent = PPO(
        "MlpPolicy",
        envs,
        n_steps=20,
        batch_size=40,
        learning_rate=1e-3,
        gae_lambda=0.98,
        device="cpu",
        seed=0,
    )
    agent.learn(options.steps)

    returns, _ = evaluate_policy(agent, envs, n_eval_episodes=20, return_episode_rewards=True)
    print(f"return per episode: {np.mean(returns) * skills.skill_length:.1f}")
    envs.close()
    return agent


if __name__ == "__main__":
    main()
