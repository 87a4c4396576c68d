"""The benchmarks run and write what they promise; times are not tested."""

import importlib.util
import json
from pathlib import Path

import pytest

pytest.importorskip("mpe2", reason="needs mpe2, which is only installed for tests")
BENCH = Path(__file__).parent.parent / "bench" / "bench.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench", BENCH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_results_are_merged_by_benchmark_with_commit_and_settings(bench, tmp_path, capsys):
    out = tmp_path / "results.json"
    out.write_text('{"other": {"numbers": {}}}')
    bench.main(["--only", "environment", "--quick", "--out", str(out)])
    results = json.loads(out.read_text())
    assert set(results) == {"other", "environment"}
    result = results["environment"]
    assert set(result) == {"numbers", "settings", "quick", "made_with", "seconds"}
    assert (
        result["quick"] and result["settings"]["agents"] == 10 and "commit" in result["made_with"]
    )
    assert all(value > 0 for value in result["numbers"].values())
    assert "ours times as fast" in capsys.readouterr().out


def test_learning_is_timed_until_it_gets_there(bench):
    numbers, settings = bench.bench_learning(quick=True)
    assert (
        numbers["after_accuracy_then"] >= settings["accuracy"]
        and numbers["time_ratio_per_update"] > 0
    )
    assert (
        settings["before"]["skill_input"] == "concat" and settings["after"]["skill_input"] == "gate"
    )


def test_unknown_benchmark_is_refused_by_name(bench, capsys):
    with pytest.raises(SystemExit):
        bench.main(["--only", "speed"])
    assert "'speed'" in capsys.readouterr().err


def test_ratio_is_the_median_of_the_rounds_own_ratios(bench):
    times = bench.Times(["a", "b"])
    times.wall = {"a": [1.0, 30.0, 2.0], "b": [2.0, 10.0, 1.0]}  # ratios 0.5, 3, 2
    assert times.ratio("a", "b") == 2.0 and times.seconds("a") == 2.0


def test_flops_of_an_update_are_those_counted_by_hand(bench):
    trainer, _ = bench.trainer_for(
        bench.MultiParticle(2), "paper", actor_hidden=(3, 5), critic_hidden=(3, 5), discriminator_hidden=(3, 5),
        penalty_hidden=(3, 5), batch_size=4, num_envs=4, replay_capacity=8,
    )  # fmt: skip
    # D = 14, A = 10, two components of 5 values; 4 discriminators that see one entry each, 6 critics (with the entropy's)
    first, rest = 4 * 1 * 3, 4 * (3 * 5 + 5 * 5)
    discriminators = 2 * (first + rest) + first + 2 * rest
    first, rest = (14 + 10) * 3, 3 * 5 + 5 * 20
    actor = 2 * (first + rest) + first + 2 * rest
    first, rest, by_action = 6 * (14 + 10 + 10) * 3, 6 * (3 * 5 + 5 * 1), 6 * 10 * 3
    critics = 3 * (first + rest) + first + 2 * rest + rest + by_action
    assert bench.update_flops(trainer.learner, trainer.init()) == 2 * 4 * (
        discriminators + actor + critics
    )
