"""Words of the command line: what they mean, which there are, and what is said of wrong ones."""

import re
import subprocess
import sys

import pytest

import dusdi
from dusdi.cli import COMMANDS, main
from dusdi.cli.downstream import DownstreamOptions
from dusdi.cli.learning import (
    chosen_agent,
    downstream_parser,
    pretrain_parser,
    settings_given,
)
from dusdi.cli.options import QuietOptions, WorldOptions
from dusdi.cli.parser import last_value
from dusdi.cli.pretrain import PretrainOptions
from dusdi.cli.values import value_text, whole
from dusdi.cli.worlds import folder_name
from dusdi.errors import UsageError
from dusdi.methods import METHODS, find_method
from dusdi.resolve import DOWNSTREAM_GROUPS, pretrain_groups


def pretrain_words(text):
    words = text.split(" ")
    parser = pretrain_parser(words, "pretrain", "", PretrainOptions, QuietOptions)
    return parser.parse(words)


def downstream_words(text):
    words = text.split(" ")
    parser = downstream_parser(words, "downstream", "", DownstreamOptions, QuietOptions)
    given = parser.parse(words)
    return given, settings_given(parser, given)


# --- what is given, and nothing else ---


def test_only_what_is_given_is_there_even_if_it_is_the_default():
    assert pretrain_words("gunner-2d") == {"env": "gunner-2d"}
    given = pretrain_words("gunner-2d --penalty-weight 0.1 --preset fast --quiet")
    assert given == {"env": "gunner-2d", "penalty_weight": 0.1, "preset": "fast", "quiet": True}


def test_settings_are_told_from_other_options():
    given, fields = downstream_words("runs/a walker/run --clip 0.3 --seed 4 --run-seed 1 --out b")
    assert fields == {"clip": 0.3, "seed": 4}
    others = {"skills": "runs/a", "task": "walker/run", "run_seed": 1, "out": "b"}
    assert given == {**others, **fields}


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("--steps 1000000", "steps", 1_000_000),
        ("--steps 1_000_000", "steps", 1_000_000),
        ("--steps 1e6", "steps", 1_000_000),
        ("--steps=1e6", "steps", 1_000_000),
        ("--steps 1 --steps 2", "steps", 2),
        ("--alpha 1e-3", "alpha", 0.001),
        ("--target-entropy -0.5", "target_entropy", -0.5),
        ("--seed -1", "seed", -1),
        ("--actor-hidden 64,32", "actor_hidden", (64, 32)),
        ("--actor-hidden 64", "actor_hidden", (64,)),
        ("--penalty-hidden none", "penalty_hidden", ()),
        ("--skill-input film", "skill_input", "film"),
        ("--twin-critics", "twin_critics", True),
        ("--no-twin-critics", "twin_critics", False),
        ("--twin_critics", "twin_critics", True),
        ("--components a=box:2 b=sphere:3", "components", ("a=box:2", "b=sphere:3")),
        ("--components a=box:2 --components b=box:1", "components", ("a=box:2", "b=box:1")),
        ("--rewards a=m:f", "rewards", ("a=m:f",)),
        ("--factor a=0,1 --factor b=2", "factor", ("a=0,1", "b=2")),
        ("--env-option agents=3", "env_option", ("agents=3",)),
    ],
)
def test_words_become_values(words, field, value):
    given = pretrain_words(f"gunner-2d {words}")
    assert given[field] == value and type(given[field]) is type(value)
    assert set(given) == {"env", field}


def test_repeated_options_leave_the_next_word_alone():
    given = pretrain_words("--factor a=0 gunner-2d --components a=box:2")
    assert given == {"env": "gunner-2d", "factor": ("a=0",), "components": ("a=box:2",)}


@pytest.mark.parametrize("text", ["1.5", "1e-1", "many", "", "1e999", "nan"])
def test_what_is_no_whole_number_is_refused(text):
    with pytest.raises((ValueError, OverflowError)):
        whole(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "yes"),
        (1_024_000, "1_024_000"),
        (0.003, "0.003"),
        ((64, 64), "64,64"),
        ((), "none"),
        (("a 0=box:2", "b=box:1"), "a 0=box:2, b=box:1"),
        ("film", "film"),
    ],
)
def test_values_are_shown_as_they_are_written(value, text):
    assert value_text(value) == text


# --- the method and the agent decide which settings there are ---


def test_the_last_word_for_an_option_counts():
    assert last_value(["--method", "a", "x", "--method=b"], "--method") == "b"
    assert last_value(["--methods", "a"], "--method") is None
    assert last_value(["--method"], "--method") is None


def test_each_method_has_its_own_settings():
    assert pretrain_words("gunner-2d --method diayn --max-skills 64")["max_skills"] == 64
    with pytest.raises(UsageError, match=r"--max-skills is a setting of method diayn, not dusdi"):
        pretrain_words("gunner-2d --max-skills 64")
    with pytest.raises(UsageError, match=r"--penalty-lr is a setting of method dusdi or susd, not"):
        pretrain_words("gunner-2d --method=diayn --penalty-lr 1")
    with pytest.raises(UsageError, match=r"method dusdi or diayn or diayn-mc or susd, not sac"):
        pretrain_words("gunner-2d --method sac --components ammo=box:2")


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("gunner-2d/limited", "gunner-2d-limited"),
        ("gym:Reacher-v5", "gym.Reacher-v5"),
        ("gym:package:Reach-v0", "gym.package.Reach-v0"),
        ("my_package.worlds:make", "my_package.worlds"),
        ("./worlds.py:make", "worlds"),
        ("/home/me/worlds.py:make", "worlds"),
        ("../worlds.py:heavy", "worlds.heavy"),
    ],
)
def test_folders_are_named_after_a_file_and_not_after_its_place(text, folder):
    assert folder_name(text) == folder


OUTSIDE = """
import dataclasses
from dusdi.methods.diayn import Diayn, DiaynSettings
from dusdi.settings import setting

@dataclasses.dataclass(frozen=True)
class WanderSettings(DiaynSettings):
    wander_weight: float = setting(0.5, "how much to wander")

class Wander(Diayn):
    name = "wander"
    Settings = WanderSettings
    presets = {"fast": {"wander_weight": 0.75}}
"""


def test_a_method_from_outside_brings_its_settings(tmp_path, monkeypatch, capsys):
    (tmp_path / "cli_outside.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(tmp_path)
    given = pretrain_words("gunner-2d --method cli_outside:Wander --wander-weight 2")
    assert given["wander_weight"] == 2.0
    text = help_text(capsys, "pretrain", "gunner-2d", "--method", "cli_outside:Wander")
    assert "wander options" in text
    assert "how much to wander (default: 0.75, by wander's preset fast)" in text


def test_the_agent_decides_which_settings_a_task_has():
    assert chosen_agent(["runs/a", "walker/run"]) == "ppo"
    assert chosen_agent(["scratch", "walker/run"]) == "sac"
    assert downstream_words("runs/a walker/run --agent cpg --hidden 8,8")[1] == {"hidden": (8, 8)}
    assert downstream_words("scratch walker/run --actor-hidden 8")[1] == {"actor_hidden": (8,)}
    with pytest.raises(UsageError, match="--hidden is a setting of agents ppo and cpg, not sac"):
        downstream_words("scratch walker/run --hidden 8")
    with pytest.raises(UsageError, match="--tau is a setting of agent sac, not ppo"):
        downstream_words("runs/a walker/run --tau 0.1")


# --- help ---


def help_text(capsys, *words):
    """What help says, without the boxes around it."""
    assert main([*words, "--help"]) == 0
    text = capsys.readouterr().out
    return " ".join(re.sub(r"[│╭╮╰╯─+]|---+|^\||\|$", " ", text, flags=re.M).split())


def times(text, option):
    return len(re.findall(rf"(?<![\w-]){option}(?![\w-])", text))


@pytest.mark.parametrize("method", METHODS)
def test_help_shows_each_setting_of_a_run_once(capsys, method):
    text = help_text(capsys, "pretrain", "--method", method)
    kinds = [PretrainOptions, WorldOptions, QuietOptions]
    kinds += pretrain_groups(find_method(method)).values()
    for name, field in ((n, f) for kind in kinds for n, f in kind.fields().items()):
        option = "ENV" if name == "env" else f"--{name.replace('_', '-')}"
        assert times(text, option) == (2 if name == "env" else 1), option  # once in the usage
        assert field.metadata["doc"].replace(" ", "") in text.replace(" ", "")


@pytest.mark.parametrize(
    ("words", "groups", "absent"),
    [
        (["runs/a", "walker/run"], DOWNSTREAM_GROUPS, "--tau"),
        (["scratch", "walker/run"], pretrain_groups(METHODS["sac"]), "--clip"),
    ],
)
def test_help_on_tasks_shows_the_settings_of_the_agent_only(capsys, words, groups, absent):
    text = help_text(capsys, "downstream", *words)
    for kind in groups.values():
        for name in kind.fields():
            assert times(text, f"--{name.replace('_', '-')}") == 1, name
    assert times(text, absent) == 0


def test_help_shows_what_a_setting_would_be_and_why(capsys):
    text = help_text(capsys, "pretrain", "multi-particle")
    assert "gamma (release: 0.95) (default: 0.93, by world multi-particle)" in text
    assert "(paper: 0.1) (default: 0.1, by world multi-particle)" in text
    assert (
        "hidden layers of each q_phi (paper: 1024,1024) (default: none, by dusdi's preset fast)"
        in text
    )
    text = help_text(capsys, "pretrain")
    assert "gamma (release: 0.95) (default: 0.9, by preset fast)" in text
    text = help_text(capsys, "pretrain", "gunner-2d", "--preset", "paper")
    assert "gamma (release: 0.95) (default: 0.95)" in text
    text = help_text(capsys, "downstream", "runs/a", "walker/run")
    assert "(default: 1_024_000, by task walker/run)" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(capsys, command):
    assert f"usage: dusdi {command}" in help_text(capsys, command)


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_dusdi_alone_lists_the_commands(capsys, words):
    assert main(words) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(f"{name} {about}" in text for name, about in COMMANDS.items())


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dusdi {dusdi.__version__}\n"


def test_the_overview_needs_no_jax():
    code = "import sys; from dusdi.cli import main; main(['--help']); print('jax' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "False"


# --- wrong words ---


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("evaluat x", "unknown command 'evaluat'; did you mean evaluate?"),
        ("--verson", "unknown option '--verson'; did you mean --version?"),
        ("pretrain", "ENV is missing: a world"),
        ("downstream runs/a", "TASK is missing"),
        ("compare", "RUN [RUN ...] is missing"),
        ("render runs/a", "--out FILE is missing"),
        ("pretrain guner-2d", "unknown world 'guner-2d'; did you mean gunner-2d?"),
        ("pretrain guner-2d --help", "did you mean gunner-2d"),
        ("pretrain gunner-2d --method dusdy", "did you mean dusdi"),
        ("pretrain gunner-2d --method ", "unknown method ''"),
        ("pretrain gunner-2d --method no.such:Thing", "can't be imported"),
        ("pretrain gunner-2d --preset fst", "did you mean fast"),
        ("pretrain gunner-2d --preset ", "unknown preset ''"),
        ("pretrain gunner-2d --alhpa 1", "unknown option '--alhpa'; did you mean --alpha"),
        ("pretrain --alhpa=1 gunner-2d", "did you mean --alpha"),
        ("pretrain gunner-2d --steps", "--steps needs a value; see `dusdi pretrain --help`"),
        ("pretrain gunner-2d --components", "--components needs a value"),
        ("pretrain gunner-2d --steps --quiet", "--steps needs a value"),
        ("pretrain gunner-2d again", "unexpected argument 'again'"),
        ("pretrain gunner-2d --alpha much", "--alpha takes a number, not 'much'"),
        ("pretrain gunner-2d --steps 1.5", "--steps takes a whole number like 1000000,"),
        ("pretrain gunner-2d --steps 1e999", "--steps takes a whole number"),
        ("pretrain gunner-2d --actor-hidden 64x64", "takes layers like 64,64 or none"),
        ("pretrain gunner-2d --skill-input flim", "did you mean film"),
        ("pretrain gunner-2d --components x", "each entry of components is NAME=VALUE, not 'x'"),
        ("pretrain gunner-2d --components x=box:2", "unknown factor in components 'x'"),
        ("pretrain gunner-2d --component bx:2", "bx:2"),
        ("pretrain gunner-2d --factor a=0", "--factor and --proprioception are for worlds of your"),
        ("pretrain gym:X --factor drone", "--factor takes NAME=ENTRIES, for instance ball=0,1"),
        ("pretrain gym:X --factor a=0 --factor a=1", "--factor is given twice for 'a'"),
        ("pretrain gunner-2d --env-option agents", "--env-option takes NAME=VALUE, for instance"),
        ("pretrain gunner-2d --env-option agents=3", "does not take these options"),
        ("pretrain multi-particle --env-option agents=0", "agents"),
        ("pretrain no.such.module:world", "can't import"),
        ("pretrain world.py", "world.py:FUNCTION"),
        ("downstream scratch walker/rn", "did you mean walker/run"),
        ("downstream scratch walker/run --agent ppo", "agent ppo chooses skills"),
        ("downstream scratch walker/run --agent sca", "did you mean sac"),
        ("downstream scratch walker/run --env-option a=1", "for a world that is named here"),
        ("config downstream walker/run --env-option a=1", "for a world that is named here"),
        ("config downstream walker/run --factor a=0", "for a world that is named here"),
        ("config pretran gunner-2d", "did you mean pretrain"),
        ("config pretrain gunner-2d --components x=box:2", "unknown factor in components 'x'"),
        ("config pretrain gunner-2d --batch-size 1e9", "batch_size"),
        ("evaluate runs/a --steps 0", "steps must be from 1 to"),
        ("evaluate runs/a --seed -1", "seed must be from 0 to"),
    ],
)
def test_wrong_words_are_explained_in_a_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    assert main(words.split(" ")) == 2
    said = capsys.readouterr().err
    assert message in said and said.startswith("dusdi: ") and said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--input-gain nan", "input_gain must be a finite number"),
        ("--input-gain -1", "input_gain must be at least 0"),
        ("--input-gain 1e39", "input_gain must be at most 1e+09"),
        ("--random-steps 10000 --steps 10240", "nothing would be learned"),
        ("--log-std-min 1e999", "log_std_min must be a finite number"),
        ("--log-std-min 5 --log-std-max -5", "log_std_min (5.0) must be less"),
        ("--target-entropy nan", "target_entropy must be a finite number"),
        ("--skill-length 99999999999999", "skill_length must be at most 100,000"),
        ("--penalty-start 99999999999999", "penalty_start"),
        ("--steps 1" + "0" * 400, "steps is far too large"),
        ("--steps 1000", "nothing would be learned in 1,000 steps: the first 10,240 are random"),
        ("--batch-size 4096 --replay-capacity 256", "must not be more than replay_capacity"),
        ("--num-envs 100", "for instance to 4 or 100"),
        ("--seed -1", "seed must be at least 0"),
        ("--actor-hidden 0", "each entry of actor_hidden must be positive"),
        ("--actor-hidden none", "at least one layer"),
    ],
)
def test_settings_out_of_range_are_refused_before_anything_is_made(
    tmp_path, monkeypatch, capsys, words, message
):
    monkeypatch.chdir(tmp_path)
    assert main(["pretrain", "gunner-2d", "--out", "run", *words.split()]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_python_names_the_nearest_setting_too():
    with pytest.raises(UsageError, match="unknown setting 'stpes'; did you mean steps"):
        dusdi.pretrain("gunner-2d", stpes=1)
    with pytest.raises(UsageError, match="unknown setting 'discont'; did you mean discount"):
        dusdi.downstream(None, "gunner-2d/unlimited", discont=1)
