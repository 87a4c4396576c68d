"""The README's code works as it stands."""

import re
from pathlib import Path

import numpy as np

README = (Path(__file__).parent.parent / "README.md").read_text()


def block(start):
    return next(
        code
        for code in re.findall(r"```python[^\n]*\n(.*?)```", README, re.S)
        if code.startswith(start)
    )


def test_bring_your_own_environment(capsys):
    names = {}
    exec(block("import gymnasium"), names)
    result = names["result"]
    assert "skills to states" in capsys.readouterr().out
    assert result.disentanglement > 0.6, result.importance
    assert (np.diag(result.importance) > 0.7).all()


def test_use_from_python(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    code = block("import dusdi").replace('preset="fast"', 'preset="debug", steps=640')
    exec(
        code.replace(
            'skills, "gunner-2d/limited")  #',
            'skills, "gunner-2d/limited", preset="debug", steps=8_000)  #',
        ),
        names,
    )
    assert names["solution"].step == 8_000 and names["task"].action_space.shape == (3,)
    assert names["action"].shape == (1, 5)
    assert 0 <= float(capsys.readouterr().out) <= 1
    assert (tmp_path / "skills.gif").exists()


def test_links_lead_somewhere():
    root = Path(__file__).parent.parent
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (root / link).exists(), link
