"""The benchmarks run and write what they promise; times are not tested."""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

pytest.importorskip("mpe2", reason="needs mpe2, which is only installed for tests")
sys.path.insert(0, str(Path(__file__).parent.parent))  # bench/ is not installed

from bench import training, updates
from bench.__main__ import BENCHMARKS, main
from bench.timing import Chained, Times, repeated
from bench.trainers import trainer_for
from dusdi.envs.particle import MultiParticle


def test_results_are_merged_by_benchmark_with_commit_and_settings(tmp_path, capsys):
    out = tmp_path / "results.json"
    out.write_text('{"other": {"numbers": {}}}')
    main(["--only", "environment", "--quick", "--out", str(out)])
    results = json.loads(out.read_text())
    assert set(results) == {"other", "environment"}
    result = results["environment"]
    assert set(result) == {"numbers", "settings", "quick", "made_with", "seconds"}
    assert result["quick"] and "commit" in result["made_with"]
    assert result["settings"] == {"agents": 10, "num_envs": 256}
    assert all(value > 0 for value in result["numbers"].values())
    assert "ours times as fast" in capsys.readouterr().out


def test_learning_is_timed_until_the_accuracy_is_reached():
    numbers, settings = BENCHMARKS["learning"](True)
    assert numbers["fast_accuracy"] >= settings["accuracy"]
    assert numbers["time_ratio_per_update"] > 0
    assert settings["plain"]["networks"]["skill_input"] == "concat"
    assert settings["fast"]["networks"]["skill_input"] == "film"


def test_a_single_action_is_timed_against_a_plain_network():
    numbers, _ = BENCHMARKS["act"](True)
    assert numbers["gunner-2d_act_microseconds"] > numbers["gunner-2d_numpy_mlp_microseconds"] > 0
    assert numbers["gunner-2d_act_over_numpy_mlp"] > 1


def test_compilation_is_timed_for_each_number_of_updates(monkeypatch):
    seconds = iter([2.0, 5.0])
    monkeypatch.setattr(training, "compile_seconds", lambda function, shapes: next(seconds))
    numbers, settings = BENCHMARKS["compile"](True)
    assert numbers == {
        "1_updates_seconds": 2.0,
        "2_updates_seconds": 5.0,
        "2_updates_over_1": 2.5,
    }
    for count, config in settings.items():
        per_update = config["sac"]["steps_per_update"]
        assert config["run"]["num_envs"] // per_update == int(count)


def test_compilation_is_timed_without_the_cache():
    before = jax.config.jax_enable_compilation_cache
    used = []

    def function(x):
        used.append(jax.config.jax_enable_compilation_cache)
        return x + 1

    assert training.compile_seconds(jax.jit(function), jnp.zeros(3)) > 0
    assert used == [False]
    assert jax.config.jax_enable_compilation_cache == before


def test_unknown_benchmark_is_refused_by_name(capsys):
    with pytest.raises(SystemExit):
        main(["--only", "speed"])
    assert "'speed'" in capsys.readouterr().err


def test_ratio_is_the_median_of_the_ratios_of_all_rounds():
    times = Times(["a", "b"])
    times.wall = {"a": [1.0, 30.0, 2.0], "b": [2.0, 10.0, 1.0]}  # ratios 0.5, 3, 2
    assert times.ratio("a", "b") == 2.0 and times.seconds("a") == 2.0


def test_calls_are_chained_or_repeated():
    run = Chained(lambda state: state + 1, 3)
    run()
    run()
    assert run.state == 5
    calls = []
    repeated(calls.append, 3, "x")()
    assert calls == ["x", "x", "x"]


def test_times_are_compared_with_the_smallest_number_of_factors():
    """4 factors: 2 updates take 7 s instead of 2 s, for twice the factors and weights."""
    times = Times(["2_factors", "4_factors"])
    times.wall = {"2_factors": [2.0], "4_factors": [7.0]}
    numbers = updates.factor_numbers(times, {2: 5.0, 4: 10.0}, updates=2)
    assert numbers["4_factors_milliseconds"] == 3_500.0
    assert numbers["4_factors_time_ratio"] == 3.5
    assert numbers["4_factors_time_ratio_per_factor"] == 1.75
    assert numbers["4_factors_weights_ratio"] == 2.0


def test_flops_of_an_update_are_those_counted_by_hand():
    """D = 14, A = 10 and two components of 5 values.

    There are 4 discriminators that see one entry each, and 6 critics (with the entropy's).
    """
    hidden = dict.fromkeys(updates.HIDDEN, (3, 5))
    sizes = {"batch_size": 4, "num_envs": 4, "replay_capacity": 8}
    trainer, _ = trainer_for(MultiParticle(2), "paper", **hidden, **sizes)
    first = 4 * 1 * 3
    rest = 4 * (3 * 5 + 5 * 5)
    discriminators = 2 * (first + rest) + first + 2 * rest
    first = (14 + 10) * 3
    rest = 3 * 5 + 5 * 20
    actor = 2 * (first + rest) + first + 2 * rest
    first = 6 * (14 + 10 + 10) * 3
    rest = 6 * (3 * 5 + 5 * 1)
    by_action = 6 * 10 * 3
    critics = 3 * (first + rest) + first + 2 * rest + rest + by_action
    expected = 2 * 4 * (discriminators + actor + critics)
    assert updates.update_flops(trainer.learner, trainer.init()) == expected
