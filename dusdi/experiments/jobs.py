"""Jobs as data: what to train or measure, with which settings, from which inputs.

A job is named by a hash of everything that determines its result, its inputs included. Two
experiments that need the same run share it, and a job with other settings is another job. Settings
that have their default are left out of the hash, so that a new setting leaves what was measured
without it valid. Records and runs hold them all the same, and are not used if the default of a
setting that is still there has changed.

Training and measuring are jobs of their own: "skills" and "task" train, "dci" and "return" measure
what was trained, and "expert" measures the scripted expert of a world. "encoder" trains what a
world is seen through in the jobs that have it among their inputs. So a figure of learning
curves measures nothing, and measuring on more steps trains nothing again.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dusdi.encoder import load_encoder
from dusdi.encoder_training import EncoderTrainer, pictured
from dusdi.envs import make
from dusdi.envs.base import World
from dusdi.errors import CheckpointError, DusdiError, UsageError
from dusdi.fine_tuning import actor_settings
from dusdi.metrics.dci import fits
from dusdi.policy import read_policy
from dusdi.resolve import (
    DownstreamSettings,
    PretrainSettings,
    resolve_downstream,
    resolve_pretrain,
)
from dusdi.settings import without_groups
from dusdi.skills import check_own, find_policy
from dusdi.tasks import make_task

TRAINING = ("skills", "task", "encoder")
DIGEST_BYTES = 6  # 12 hexadecimal digits


@dataclass(frozen=True)
class Job:
    """A piece of work that gives a record.

    Attributes:
      kind: "skills", "dci", "task", "return", "expert" or "encoder".
      environment: the name of the world or task.
      name: a short name for people, which is no part of the key.
      settings: all that determines the result: resolved settings of a run with its seed, or how
        something is measured.
      options: of the world.
      request: the arguments for `dusdi.pretrain`, `dusdi.downstream` or `train_encoder` that
        resolve to the settings.
      inputs: the jobs whose runs this one needs.
      changed: what stands for the settings in the key: those that have not their default, and
        what else determines the result; None: all of them.
    """

    kind: str
    environment: str
    name: str
    settings: Mapping[str, Any]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    request: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    inputs: tuple[Job, ...] = ()
    changed: Mapping[str, Any] | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What the key is a hash of, as JSON."""
        identity = {
            "kind": self.kind,
            "environment": self.environment,
            "options": self.options,
            "settings": self.settings if self.changed is None else self.changed,
            "inputs": [job.key for job in self.inputs],
        }
        return json.loads(json.dumps(identity))

    @property
    def all_settings(self) -> list[Any]:
        """The settings of this job and of its inputs, defaults included, as JSON."""
        inputs = [job.all_settings for job in self.inputs]
        return json.loads(json.dumps([self.settings, *inputs]))

    @functools.cached_property
    def key(self) -> str:
        return hash_of(self.identity)

    @property
    def run(self) -> Job:
        """The training job whose folder this one works in."""
        return self if self.kind in TRAINING or not self.inputs else self.inputs[0]

    @property
    def encoder(self) -> Job | None:
        """The job of the encoder that this one's world is seen through, if there is one."""
        found = (job if job.kind == "encoder" else job.encoder for job in self.inputs)
        return next((job for job in found if job is not None), None)

    def folder(self, runs: Path) -> Path:
        """Returns the folder of the run that this job trains or measures."""
        return runs / f"{self.run.name}-{self.run.key}"


def hash_of(identity: Mapping[str, Any]) -> str:
    """Returns a short hash of a job's identity, the same for any order of its names."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


def skills_job(
    world: str,
    method: str,
    seed: int,
    *,
    preset: str,
    fields: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
    name: str = "",
    encoder: Job | None = None,
) -> Job:
    """Returns the job that discovers skills in a world, or in what an encoder sees of it.

    `name` is the method by default.
    """
    options = dict(options or {})
    own = {**fields, "seed": seed}
    resolved = resolve_pretrain(make(world, **options), method, preset, own)
    request = {"method": method, "preset": preset, **own}
    words = [world, *(f"{key}={value}" for key, value in options.items()), name or method]
    title = _joined(*words, *([_sight(encoder)] if encoder else []), f"seed{seed}")
    inputs = (encoder,) if encoder else ()
    return _training_job("skills", world, title, resolved.settings, options, request, inputs)


def encoder_job(world: str, *, labels: bool, seed: int = 0, **fields: Any) -> Job:
    """Returns the job that trains an encoder of a world's pictures."""
    request = {"labels": labels, "seed": seed, **fields}
    settings = EncoderTrainer(pictured(make(world)), **request).identity
    found = Job("encoder", world, "", settings, {}, request)
    return dataclasses.replace(found, name=_joined(world, "encoder", _sight(found), f"seed{seed}"))


def _sight(encoder: Job) -> str:
    """Returns what an encoder learns from, as part of a folder's name."""
    return "labels" if encoder.request["labels"] else "drawings"


def dci_job(skills: Job, *, steps: int) -> Job:
    """Returns the job that measures DCI of skills, on episodes of the run's own seed."""
    settings = {"steps": steps, "seed": find_setting(skills.settings, "seed")}
    metric = {**settings, **_metric(skills)}
    name = skills.name
    return Job("dci", skills.environment, name, settings, skills.options, {}, (skills,), metric)


def _metric(skills: Job) -> dict[str, int]:
    """Returns how often the metric fits k-means, where factors have several entries.

    Without this, scores would count that were measured with fewer fits.
    """
    most = max(len(factor.indices) for factor in make_environment(skills).spec.controlled)
    return {"k_means_fits": fits(most)} if most > 1 else {}


def expert_job(skills: Job, *, steps: int) -> Job:
    """Returns the job that measures DCI of the scripted expert of the skills' world."""
    length = find_setting(skills.settings, "skill_length")
    settings = {"steps": steps, "seed": 0, "skill_length": length}
    metric = {**settings, **_metric(skills)}
    name = f"{skills.environment}-expert"
    return Job("expert", skills.environment, name, settings, skills.options, changed=metric)


def task_job(
    task: str,
    agent: str,
    seed: int,
    skills: Job | None = None,
    *,
    preset: str,
    fields: Mapping[str, Any],
) -> Job:
    """Returns the job that learns a task with an agent, over skills or without."""
    own = {**fields, "seed": seed}
    more = [actor_settings(skills.settings)] if skills and agent == "sac" else []
    resolved = resolve_downstream(make_task(task), agent, preset, own, more=more)
    request = {"agent": agent, "preset": preset, **own}
    method = [str(skills.request["method"])] if skills else []
    name = _joined(task, *method, agent, f"seed{seed}")
    inputs = (skills,) if skills else ()
    return _training_job("task", task, name, resolved.settings, {}, request, inputs)


def _training_job(
    kind: str,
    environment: str,
    name: str,
    settings: PretrainSettings | DownstreamSettings,
    options: Mapping[str, Any],
    request: Mapping[str, Any],
    inputs: tuple[Job, ...] = (),
) -> Job:
    changed = settings.changed_to_json()
    return Job(kind, environment, name, settings.to_json(), options, request, inputs, changed)


def return_job(task: Job, *, episodes: int) -> Job:
    """Returns the job that measures the return of a task job, in episodes of its own seed."""
    settings = {"episodes": episodes, "seed": find_setting(task.settings, "seed")}
    return Job("return", task.environment, task.name, settings, task.options, inputs=(task,))


def _joined(*words: str) -> str:
    """Returns words as part of a folder's name."""
    return re.sub(r"[^\w.=+-]", "-", "-".join(words))


def find_setting(settings: Mapping[str, Any], name: str) -> Any:
    """Returns a setting, which may be in one of several groups; names are unique among them."""
    return without_groups(settings)[name]


def make_environment(job: Job, runs: Path | None = None) -> World:
    """Makes the world or task of a job, seen through its encoder where the runs are given."""
    options = dict(job.options)
    if runs is not None and job.encoder is not None:
        options["encoder"] = job.encoder.folder(runs)
    if job.kind in ("task", "return"):
        return make_task(job.environment, **options)
    return make(job.environment, **options)


def agree(said: Any, wanted: Any) -> bool:
    """Whether two nests of settings agree in the names that both know."""
    if isinstance(said, dict) and isinstance(wanted, dict):
        return all(agree(said[name], wanted[name]) for name in said.keys() & wanted.keys())
    if isinstance(said, list) and isinstance(wanted, list) and len(said) == len(wanted):
        return all(agree(*pair) for pair in zip(said, wanted, strict=True))
    return said == wanted


def is_trained(job: Job, runs: Path) -> bool:
    """Tells whether the policy of a training job is there, undamaged and of its last step."""
    folder = job.folder(runs)
    if job.kind == "encoder":
        return _is_trained_encoder(job, folder)
    if job.encoder is not None and not is_trained(job.encoder, runs):
        return False
    try:
        file = find_policy(folder)
        description, _ = read_policy(file)
        check_own(file, description)
    except CheckpointError:
        return False
    check_settings(job, folder, description, runs)
    return description.get("step", 0) >= find_setting(job.settings, "steps")


def _is_trained_encoder(job: Job, folder: Path) -> bool:
    try:
        return agree(load_encoder(folder).description, job.settings)
    except DusdiError:
        return False


def check_settings(job: Job, folder: Path, description: Mapping[str, Any], runs: Path) -> None:
    """Raises a `UsageError` if the run in a job's folder is not the one that the job would make.

    The folder's name leaves out settings that have their default, and defaults may have changed.
    """
    said = description.get("settings")
    flat = without_groups(said) if isinstance(said, Mapping) else {}
    wanted = without_groups(job.all_settings[0])
    for name in wanted.keys() & flat.keys():
        if flat[name] != wanted[name]:
            raise _other_run(folder, f"with {name} {flat[name]}, not {wanted[name]}")
    world = json.loads(json.dumps(make_environment(job, runs).spec.to_json()))
    if flat and description.get("world") != world:
        raise _other_run(folder, f"in another world than {world['name']}")


def _other_run(folder: Path, what: str) -> UsageError:
    return UsageError(f"{folder} holds a run {what}; remove it, or choose another folder for runs")
