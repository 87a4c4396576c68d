"""Videos of skills at work: the world on the left, the skill in force and its factors right."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dusdi.checks import check_file, check_numbers
from dusdi.controller import Controller, SkillController, load_controller
from dusdi.envs.base import World
from dusdi.envs.canvas import FAINT, HUES, INK, PAPER
from dusdi.errors import UsageError
from dusdi.evaluation import as_skills, show, world_for
from dusdi.files import replacing
from dusdi.skill_space import SkillSpace
from dusdi.skills import Skills
from dusdi.stepping import HostStepper
from dusdi.task_evaluation import task_for
from dusdi.tasks.base import WINDOW
from dusdi.types import WorldSpec

MOST_SHOWN = 1000  # skills or decisions in a video
SUFFIXES = (".mp4", ".gif")
FRAMES_PER_SECOND = 20
PANEL_WIDTH = 320
PANEL_HEIGHT = 480


def render(
    skills: Skills | str | Path,
    env: World | str | None = None,
    out: str | Path = "skills.mp4",
    *,
    chosen: Sequence[np.ndarray] = (),
    count: int = 6,
    seed: int = 0,
    progress: bool = False,
) -> Path:
    """Writes a video (.mp4 or .gif) of skills, chosen or random, each for L steps.

    Args:
      skills: the skills, or their run's folder.
      env: needed only for worlds that dusdi can't make by name.
      out: the video.
      chosen: skills to show one after the other.
      count: how many random ones to show if none is chosen.
      seed: of the world and the random skills.
      progress: show a progress bar (or log lines, if the output is not a terminal).
    """
    _check_count(count, seed)
    out = check_file(out, SUFFIXES)
    skills = as_skills(skills)
    world = world_for(skills, env)
    sequence = [skills.space.check(skill) for skill in chosen]
    sequence = sequence or list(skills.sample_skills(count, seed))
    total = len(sequence) * skills.skill_length
    return _write(out, _skill_frames(skills, world, sequence, seed), total, progress)


def render_task(
    controller: Controller | str | Path,
    task: World | str | None = None,
    out: str | Path = "task.mp4",
    *,
    count: int = 6,
    seed: int = 0,
    progress: bool = False,
) -> Path:
    """Writes a video (.mp4 or .gif) of a solution at work in its task.

    Args:
      controller: the solution, or the folder of the run that learned it.
      task: needed only for tasks that dusdi can't make by name.
      out: the video.
      count: how many decisions it shows, or windows of 50 steps of a flat policy.
      seed: of the task.
      progress: show a progress bar (or log lines, if the output is not a terminal).
    """
    _check_count(count, seed)
    out = check_file(out, SUFFIXES)
    if isinstance(controller, str | Path):
        controller = load_controller(controller)
    task = task_for(controller.spec, task)
    steps = count * (controller.interval if controller.interval > 1 else WINDOW)
    return _write(out, _task_frames(controller, task, steps, seed), steps, progress)


def _check_count(count: int, seed: int) -> None:
    check_numbers(seed=seed, count=count)
    if count > MOST_SHOWN:
        raise UsageError(f"a video shows at most {MOST_SHOWN:,} skills or decisions, not {count:,}")


class _Ranges:
    """The range of each observation entry so far, which bars are drawn in."""

    def __init__(self, observation: np.ndarray):
        self.low = observation.copy()
        self.high = observation.copy()

    def include(self, observation: np.ndarray) -> None:
        self.low = np.minimum(self.low, observation)
        self.high = np.maximum(self.high, observation)

    def share(self, observation: np.ndarray) -> np.ndarray:
        return (observation - self.low) / np.maximum(self.high - self.low, 1e-6)


def _skill_frames(
    skills: Skills, world: World, sequence: Sequence[np.ndarray], seed: int
) -> Iterator[np.ndarray]:
    stepper = HostStepper(world, 1, pictures=True)
    try:
        observation = stepper.reset(seed)
        ranges = _Ranges(observation[0])
        for number, skill in enumerate(sequence, 1):
            for t in range(1, skills.skill_length + 1):
                step = stepper.step(skills.act(observation, skill[None]))
                ranges.include(step.next_observation[0])
                title = f"skill {number} of {len(sequence)}, step {t}"
                share = ranges.share(step.next_observation[0])
                panel = draw_panel(world.spec, skills.space, title, skill, share)
                yield _beside(stepper.render(), panel)
                observation = step.observation
    finally:
        stepper.close()


def _task_frames(
    controller: Controller, task: World, steps: int, seed: int
) -> Iterator[np.ndarray]:
    stepper = HostStepper(task, 1, pictures=True, rewarded=True)
    space = controller.skills.space if isinstance(controller, SkillController) else SkillSpace(())
    try:
        observation = stepper.reset(seed)
        ranges = _Ranges(observation[0])
        earned = 0.0
        age = 0
        for _ in range(steps):
            if age % controller.interval == 0:
                decision = controller.decide(observation)
            step = stepper.step(controller.act(observation, decision))
            earned += float(step.reward.sum())
            age += 1
            ranges.include(step.next_observation[0])
            share = ranges.share(step.next_observation[0])
            title = f"step {age}, return {earned:,.1f}"
            panel = draw_panel(task.spec, space, title, decision[0], share)
            yield _beside(stepper.render(), panel)
            observation = step.observation
            if step.done[0]:  # the next frames show a new episode
                earned = 0.0
                age = 0
    finally:
        stepper.close()


# --- files ---


def _write(out: Path, frames: Iterable[np.ndarray], total: int, progress: bool) -> Path:
    """Encodes frames as they are drawn; the file appears once it is whole."""
    title = out.name if progress else None
    with replacing(out) as partial, show(title, "drawing", total, unit="frames") as display:

        def counted() -> Iterator[np.ndarray]:
            for done, frame in enumerate(frames, 1):
                yield frame
                display.advance(done)

        if out.suffix.lower() == ".gif":
            _encode_gif(partial, counted())
        else:
            _encode_mp4(partial, counted())
    return out


def _encode_gif(path: Path, frames: Iterator[np.ndarray]) -> None:
    images = map(Image.fromarray, frames)
    duration = 1000 / FRAMES_PER_SECOND
    next(images).save(path, save_all=True, append_images=images, duration=duration, loop=0)


def _encode_mp4(path: Path, frames: Iterator[np.ndarray]) -> None:
    with warnings.catch_warnings():
        # The encoder is a program that starts right after the fork that JAX warns about.
        warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called")
        writer: Any = imageio.get_writer(path, fps=FRAMES_PER_SECOND, macro_block_size=2)
        with writer:
            for frame in frames:
                writer.append_data(frame)


# --- drawing ---


def _beside(picture: np.ndarray, panel: Image.Image) -> np.ndarray:
    """The world's picture, scaled to the panel's height, and the panel."""
    image = Image.fromarray(picture)
    width = round(image.width * panel.height / image.height / 2) * 2
    image = image.resize((width, panel.height))
    return np.concatenate([np.asarray(image), np.asarray(panel)], axis=1)


def draw_panel(
    spec: WorldSpec, space: SkillSpace, title: str, skill: np.ndarray, share: np.ndarray
) -> Image.Image:
    """One row per controlled factor: its skill value, and a bar for each of its entries.

    `share` says for each observation entry where it is in its range so far, [D].
    """
    image = Image.new("RGB", (PANEL_WIDTH, PANEL_HEIGHT), PAPER)
    draw = ImageDraw.Draw(image)
    pitch = min(64, (PANEL_HEIGHT - 50) // max(len(spec.controlled), 1))
    size = max(8, min(13, pitch // 2))
    small = ImageFont.load_default(size)
    draw.text((12, 12), title, fill=INK, font=ImageFont.load_default(15))
    pairs = zip(space.names, space.columns, strict=True)
    values = {name: _text(skill[columns]) for name, columns in pairs}
    names = [factor.name for factor in spec.controlled]
    if values and list(values) != names:
        draw.text((12, 30), f"z = {_text(skill)}", fill=INK, font=small)
    for row, factor in enumerate(spec.controlled):
        top = 50 + row * pitch
        colour = HUES[row % len(HUES)]
        draw.text((12, top), factor.name, fill=INK, font=small)
        if list(values) == names:
            right = (PANEL_WIDTH - 12, top)
            draw.text(right, f"z = {values[factor.name]}", fill=colour, font=small, anchor="ra")
        box = (12, top + size + 4, pitch - size - 8)
        _draw_bars(draw, share[list(factor.indices)], box, colour)
    return image


def _draw_bars(
    draw: ImageDraw.ImageDraw,
    shares: np.ndarray,
    box: tuple[int, int, int],
    colour: str,
) -> None:
    """A bar for each share, in a box of (left, top, height)."""
    left, top, height = box
    width = (PANEL_WIDTH - 2 * left) / len(shares)
    bottom = top + max(3, min(10, height))
    for i, share in enumerate(shares):
        x = left + i * width
        draw.rectangle((x, top, x + width - 6, bottom), outline=FAINT)
        draw.rectangle((x, top, x + max(1, share * (width - 6)), bottom), fill=colour)


def _text(values: np.ndarray) -> str:
    return " ".join(f"{x:.0f}" if float(x).is_integer() else f"{x:.2f}" for x in values.tolist())
