"""Videos of skills at work: the world on the left, the skill in force and its factors on the right."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dusdi.controller import Controller, load_controller
from dusdi.envs.base import World
from dusdi.errors import UsageError
from dusdi.evaluation import as_skills, check_file, check_numbers, show, task_for, world_for
from dusdi.files import replacing
from dusdi.policy import Skills
from dusdi.tasks.base import WINDOW
from dusdi.types import WorldSpec

MOST_SHOWN = 1000  # skills or decisions in a video
SUFFIXES = (".mp4", ".gif")
FRAMES_PER_SECOND = 20
PANEL_WIDTH = 320
INK, FAINT, PAPER = (30, 34, 42), (200, 204, 212), (250, 250, 252)
COLOURS = [
    (55, 126, 184),
    (228, 26, 28),
    (77, 175, 74),
    (152, 78, 163),
    (255, 127, 0),
    (166, 86, 40),
    (23, 190, 207),
]


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
      count: how many windows of 50 steps it shows.
      seed: of the task.
      progress: show a progress bar (or log lines, if the output is not a terminal).
    """
    check_numbers(seed=seed, count=count)
    _check_length(count)
    out = check_file(out, SUFFIXES)
    if isinstance(controller, str | Path):
        controller = load_controller(controller)
    task = task_for(controller.spec, task)
    steps = min(count * WINDOW, task.spec.episode_length)
    return _write(out, _task_frames(controller, task, steps, seed), steps, progress)


def _task_frames(controller: Controller, task: World, steps: int, seed: int):
    vector = task.vector_with_pictures(1)
    observation, earned = vector.reset(seed), 0.0
    low, high = observation[0].copy(), observation[0].copy()
    try:
        for t in range(steps):
            if t % controller.interval == 0:
                decision = controller.decide(observation)
            observation, terminated, truncated = vector.step(controller.act(observation, decision))
            earned += float(vector.rewards().sum())
            low, high = np.minimum(low, observation[0]), np.maximum(high, observation[0])
            title = f"step {t + 1}, return {earned:,.1f}"
            yield _beside(
                vector.render(),
                draw_panel(task.spec, title, decision[0], observation[0], low, high, height=480),
            )
            if terminated[0] or truncated[0]:
                break
    finally:
        vector.close()


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
    check_numbers(seed=seed, count=count)
    _check_length(count)
    out = check_file(out, SUFFIXES)
    skills = as_skills(skills)
    world = world_for(skills, env)
    sequence = [skills.space.check(skill) for skill in chosen]
    sequence = sequence or list(skills.sample_skills(count, seed))
    total = len(sequence) * skills.config.skill_length
    return _write(out, _frames(skills, world, sequence, seed), total, progress)


def _check_length(count: int) -> None:
    if count > MOST_SHOWN:
        raise UsageError(f"a video shows at most {MOST_SHOWN:,} skills or decisions, not {count:,}")


def _write(out: Path, frames: Iterable[np.ndarray], total: int, progress: bool) -> Path:
    """Encodes frames as they are drawn; the file appears once it is whole."""
    title = out.name if progress else None
    with replacing(out) as partial, show(title, "drawing", total, unit="frames") as display:

        def told() -> Iterator[np.ndarray]:
            for done, frame in enumerate(frames, 1):
                yield frame
                display.advance(done)

        if out.suffix.lower() == ".gif":
            _encode_gif(partial, told())
        else:
            _encode_mp4(partial, told())
    return out


def _encode_gif(path: Path, frames: Iterator[np.ndarray]) -> None:
    images = map(Image.fromarray, frames)
    duration = 1000 / FRAMES_PER_SECOND
    next(images).save(path, save_all=True, append_images=images, duration=duration, loop=0)


def _encode_mp4(path: Path, frames: Iterator[np.ndarray]) -> None:
    with warnings.catch_warnings():
        # The encoder is a program started at once after the fork that JAX warns about.
        warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called")
        writer: Any = imageio.get_writer(path, fps=FRAMES_PER_SECOND, macro_block_size=2)
        with writer:
            for frame in frames:
                writer.append_data(frame)


def _frames(skills: Skills, world: World, sequence: Sequence[np.ndarray], seed: int):
    vector = world.vector_with_pictures(1)
    observation = vector.reset(seed)
    low, high = observation[0].copy(), observation[0].copy()
    try:
        for number, skill in enumerate(sequence):
            for t in range(skills.config.skill_length):
                observation, terminated, truncated = vector.step(
                    skills.act(observation, skill[None])
                )
                low, high = np.minimum(low, observation[0]), np.maximum(high, observation[0])
                title = f"skill {number + 1} of {len(sequence)}, step {t + 1}"
                panel = draw_panel(world.spec, title, skill, observation[0], low, high, height=480)
                yield _beside(vector.render(), panel)
                if terminated[0] or truncated[0]:
                    observation = vector.reset()
    finally:
        vector.close()


def _beside(picture: np.ndarray, panel: Image.Image) -> np.ndarray:
    """The world's picture, scaled to the panel's height, and the panel."""
    image = Image.fromarray(picture)
    width = round(image.width * panel.height / image.height / 2) * 2
    image = image.resize((width, panel.height))
    return np.concatenate([np.asarray(image), np.asarray(panel)], axis=1)


def draw_panel(
    spec: WorldSpec,
    title: str,
    skill: np.ndarray,
    observation: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    height: int,
) -> Image.Image:
    """One row per controlled factor: its skill value, and a bar for each of its entries within the range seen so far."""
    image = Image.new("RGB", (PANEL_WIDTH, height), PAPER)
    draw = ImageDraw.Draw(image)
    rows = max(len(spec.controlled), 1)
    pitch = min(64, (height - 50) // rows)
    size = max(8, min(13, pitch // 2))
    font, small = ImageFont.load_default(15), ImageFont.load_default(size)
    draw.text((12, 12), title, fill=INK, font=font)
    per_factor = len(skill) == len(spec.controlled)
    if not per_factor and len(skill):
        draw.text((12, 30), f"z = {_text(skill)}", fill=INK, font=small)
    for row, factor in enumerate(spec.controlled):
        top, colour = 50 + row * pitch, COLOURS[row % len(COLOURS)]
        draw.text((12, top), factor.name, fill=INK, font=small)
        if per_factor:
            draw.text(
                (PANEL_WIDTH - 12, top),
                f"z = {_text(skill[row])}",
                fill=colour,
                font=small,
                anchor="ra",
            )
        _bars(
            draw,
            factor.indices,
            observation,
            low,
            high,
            (12, top + size + 4, pitch - size - 8),
            colour,
        )
    return image


def _bars(
    draw: ImageDraw.ImageDraw, indices: Sequence[int], observation, low, high, box, colour
) -> None:
    left, top, height = box
    width = (PANEL_WIDTH - 2 * left) / len(indices)
    bottom = top + max(3, min(10, height))
    for i, index in enumerate(indices):
        x = left + i * width
        share = (observation[index] - low[index]) / max(high[index] - low[index], 1e-6)
        draw.rectangle((x, top, x + width - 6, bottom), outline=FAINT)
        draw.rectangle((x, top, x + max(1, share * (width - 6)), bottom), fill=colour)


def _text(values: np.ndarray) -> str:
    return " ".join(
        f"{x:.2f}" if np.issubdtype(np.asarray(x).dtype, np.floating) else str(x)
        for x in np.ravel(values)
    )
