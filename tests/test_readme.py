"""The README's code works as it stands."""

import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()


def block(start):
    return next(
        code
        for code in re.findall(r"```python[^\n]*\n(.*?)```", README, re.S)
        if code.startswith(start)
    )


@pytest.mark.slow
def test_bring_your_own_environment(capsys):
    names = {}
    exec(block("import gymnasium"), names)
    result = names["result"]
    assert "skills to states" in capsys.readouterr().out
    assert result.disentanglement > 0.75, result.importance
    assert (np.diag(result.importance) > 0.75).all(), result.importance


@pytest.mark.slow
def test_use_from_python(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = block("import dusdi")
    shortened = {
        'preset="fast"': 'preset="debug", steps=640',
        '"gunner-2d/limited")  # PPO': '"gunner-2d/limited", preset="debug", steps=4_000)  # PPO',
        "skills, env).dis": "skills, env, steps=6_000).dis",
        'env, "skills.gif"': 'env, "skills.gif", count=1',
    }
    for whole, short in shortened.items():
        assert whole in code
        code = code.replace(whole, short)
    names = {}
    exec(code, names)
    assert names["solution"].step == 4_000 and names["action"].shape == (1, 5)
    assert names["task"].action_space == gymnasium.spaces.MultiDiscrete([5, 5, 5])
    disentanglement, earned = map(float, capsys.readouterr().out.split())
    assert 0 <= disentanglement <= 1 and 0 <= earned <= 20
    assert (tmp_path / "skills.gif").read_bytes().startswith(b"GIF8")


def test_links_lead_somewhere():
    root = Path(__file__).parent.parent
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    for page in pages:
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"
