"""The quality is guarded: skills that preset `fast` learns must stay disentangled.

Training runs in processes of their own, which compile as users' do.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.slow

MEASURE = """
import json, sys
import dusdi

env, options, fields = json.loads(sys.argv[1])
out = sys.argv[2]
dusdi.pretrain(dusdi.make(env, **options), out=out, progress=False, **fields)
found = []
for seed in range(fields["seeds"]):
    result = dusdi.evaluate(dusdi.load(out, seed), steps=50_000)
    found.append([result.disentanglement, result.completeness])
print(json.dumps(found))
"""


def learn_and_measure(out, env, options=None, **fields):
    """Disentanglement and completeness of each seed, [S, 2]."""
    variables = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    words = json.dumps([env, options or {}, {"seeds": 2, "seed": 100, **fields}])
    command = [sys.executable, "-c", MEASURE, words, str(out)]
    result = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return np.array(json.loads(result.stdout))


def test_skills_stay_disentangled_where_factors_depend_on_each_other(tmp_path):
    """2D Gunner as shipped."""
    found = learn_and_measure(tmp_path, "gunner-2d")
    assert found.min() > 0.8, found
    assert (found.mean(0) > 0.85).all(), found


def test_skills_stay_disentangled_where_nobody_says_which_action_moves_what(tmp_path):
    """Multi-Particle with four agents and a third of the steps."""
    found = learn_and_measure(tmp_path, "multi-particle", {"agents": 4}, steps=512_000)
    assert (found.mean(0) > 0.7).all(), found
