"""What a run's folder holds, read in a moment: descriptions, metrics and scores, but no arrays.

Nothing here needs an intact run. What is damaged is left out and listed among the problems.

- `reading`: from the files in a folder to a `RunInfo`.
- `run_info`: the type `RunInfo`, as text and as JSON.
- `settings`: what a run's description says about its settings and its world.
- `commands`: what to do with a run next.
"""

from dusdi.info.commands import fine_tuning
from dusdi.info.reading import read_run, saved_world
from dusdi.info.run_info import RunInfo

__all__ = ["RunInfo", "fine_tuning", "read_run", "saved_world"]
