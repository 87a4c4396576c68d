"""The examples run as documented, with the real libraries they are about."""

import runpy
from pathlib import Path

import dusdi

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_stable_baselines3_learns_on_skills(tmp_path, capsys):
    dusdi.pretrain("gunner-2d", preset="debug", out=tmp_path / "run", progress=False)
    example = runpy.run_path(str(EXAMPLES / "sb3_ppo.py"))
    agent = example["main"]([str(tmp_path / "run"), "gunner-2d/unlimited", "--steps", "160"])
    assert agent.num_timesteps == 160
    printed = capsys.readouterr().out
    assert "MultiDiscrete([5 5 5])" in printed and "return per episode:" in printed
