"""The `dusdi` command: it finds the command that is named and says in a sentence what goes wrong.

Every command is a module of its own with a function `run`, imported when it is asked for, so that
`dusdi --help` is quick. Their options come from dataclasses of settings; see `dusdi.cli.parser`.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
import textwrap
import traceback
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from dusdi.errors import UsageError, explain, own_traceback, unknown_name
from dusdi.messages import plain_warnings, say_error
from dusdi.signals import STOPPING, begin_work, handling, interrupt, leave

USAGE_ERROR = 2  # invalid arguments
FAILURE = 1  # something failed, for instance the user's own code, whatever it raised
INTERRUPTED = 130

ABOUT = "Discover disentangled skills without reward, and put them to work."

#: What each command does. `dusdi.cli` has a module of each name.
COMMANDS = {
    "envs": "list the worlds, their factors and sizes, and their tasks",
    "encode": "train an encoder, through which a world is seen in pictures",
    "pretrain": "discover skills in a world, without reward",
    "downstream": "learn a task with a run's skills, or without any (agent sac)",
    "config": "show the settings that a run would use, and where each value comes from",
    "evaluate": "measure how disentangled a run's skills are (DCI), or what a task's run earns",
    "render": "make a video of a run's skills, or of a task's solution",
    "info": "say what a run is, how far it is and what it reached",
    "compare": "put runs side by side: a table and learning curves",
    "reproduce": "make a table or figure of the paper; go on where it was stopped",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code.

    Whatever goes wrong is said in a sentence; `--debug` shows the traceback too.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with handling([signal.SIGINT], leave):
            run = find_command(words)
        # What `kill`, cluster schedulers and a closed terminal send is to save what Ctrl-C saves.
        begin_work()
        with handling(STOPPING, interrupt), plain_warnings():
            run(words[1:])
            sys.stdout.flush()
        return 0
    except KeyboardInterrupt as error:
        with handling(STOPPING, signal.SIG_IGN):
            say_error(str(error) or "interrupted")
        return INTERRUPTED
    except SystemExit as error:
        if not own_traceback(error):
            raise
        say_error(f"your code ended the program, by SystemExit({error.code!r})")
        return FAILURE
    except BrokenPipeError:  # whoever read the output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except Exception as error:
        if "--debug" in words:
            traceback.print_exc()
        say_error(explain(error))
        is_usage = isinstance(error, UsageError) and not own_traceback(error)
        return USAGE_ERROR if is_usage else FAILURE


def find_command(words: Sequence[str]) -> Callable[[list[str]], None]:
    """What runs the command that the first word names; it is imported here."""
    name = words[0] if words else "--help"
    if name in ("-h", "--help"):
        return lambda rest: print_overview()
    if name == "--version":
        return lambda rest: print(f"dusdi {metadata.version('dusdi')}")
    if name.startswith("-"):
        raise unknown_name("option", name, ["--help", "--version"])
    if name not in COMMANDS:
        raise unknown_name("command", name, COMMANDS)
    module = importlib.import_module(f"dusdi.cli.{name}")
    keep_compiled_programs()
    return lambda rest: module.run(rest)


def print_overview() -> None:
    """Prints what `dusdi --help` says."""
    width = min(100, shutil.get_terminal_size().columns)
    print("usage: dusdi COMMAND ...\n")
    print(textwrap.fill(ABOUT, width))
    print("\ncommands:")
    for name, text in COMMANDS.items():
        indent = " " * 14
        print(textwrap.fill(text, width, initial_indent=f"  {name:<12}", subsequent_indent=indent))
    more = "`dusdi COMMAND --help` shows the options of a command, `dusdi --version` the version."
    print("\n" + textwrap.fill(more, width))


def keep_compiled_programs() -> None:
    """Makes JAX keep compiled programs on disk, so that the second start is quick.

    JAX's own variables choose another place for them, or how long a program must compile for that.
    """
    import jax

    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dusdi" / "xla"
        jax.config.update("jax_compilation_cache_dir", str(cache))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
