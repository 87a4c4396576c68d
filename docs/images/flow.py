"""Draws flow.svg, how data flows through the package: `python docs/images/flow.py`."""

from __future__ import annotations

from html import escape
from pathlib import Path

FILE = Path(__file__).with_name("flow.svg")
WIDTH = 1240
HEIGHT = 660
BOX_HEIGHT = 62
FILE_WIDTH = 136
INK = "#1f2733"
MUTED = "#66717f"
PAPER = "#ffffff"
GREY = "#98a2ae"
PURPLE = "#5b4ab0"
ORANGE = "#e08a3c"
GREEN = "#3b9a86"

#: Boxes from left to right: modules, and what happens there.
Lane = list[tuple[str, str]]
PRETRAIN: Lane = [
    ("envs/", "a world: reset, step"),
    ("stepping.py", "n environments, ages"),
    ("learner, replay", "record transitions"),
    ("methods, sources", "reward [B, K]"),
    ("agents/sac.py", "a critic per channel"),
    ("policy.py", "actor as plain layers"),
]
EVALUATE: Lane = [
    ("skills.py", "mean action by NumPy"),
    ("rollouts.py", "steps of random skills"),
    ("metrics/dci/", "trees, importances"),
    ("report/heat_maps.py", "component x factor"),
]
DOWNSTREAM: Lane = [
    ("tasks/", "a world with reward"),
    ("hierarchy.py", "L steps under a skill"),
    ("high_level.py", "choose, record"),
    ("agents/ppo.py", "advantages, credit"),
    ("policy.py", "MLP as plain layers"),
]
MEASURE: Lane = [
    ("controller.py", "decide, act"),
    ("task_evaluation.py", "return per episode"),
    ("experiments/", "jobs, records, tables"),
    ("report/curves.py", "return over steps"),
]
#: Modules import only from their own group and from groups to the left.
LAYERS = [
    ("errors, files", "settings, types"),
    ("spaces, nets", "skill_space"),
    ("envs, tasks", "stepping"),
    ("policy, skills", "hierarchy"),
    ("sources, methods", "agents, resolve"),
    ("learner, trainers", "training, run"),
    ("learning, pretraining", "task_learning"),
    ("metrics, report", "evaluation"),
    ("experiments", "info, cli"),
]


def text(x: float, y: float, words: str, size: int, colour: str, style: str = "") -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{colour}" '
        f'text-anchor="middle" {style}>{escape(words)}</text>'
    )


def box(x: float, y: float, width: float, title: str, about: str, colour: str) -> list[str]:
    """A box with its upper left corner at (x, y)."""
    middle = x + width / 2
    return [
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{BOX_HEIGHT}" rx="8" '
        f'fill="{PAPER}" stroke="{colour}" stroke-width="2"/>',
        text(middle, y + 26, title, 15, INK, 'font-weight="600"'),
        text(middle, y + 47, about, 13, MUTED),
    ]


def file(x: float, y: float, name: str) -> list[str]:
    """A file: a box whose upper right corner is folded."""
    right = x + FILE_WIDTH
    bottom = y + BOX_HEIGHT
    path = f"M{x} {y}H{right - 14}L{right} {y + 14}V{bottom}H{x}Z"
    return [
        f'<path d="{path}" fill="#f1f3f5" stroke="{INK}" stroke-width="1.5"/>',
        text(x + FILE_WIDTH / 2, y + 36, name, 13, INK),
    ]


def arrow(points: list[tuple[float, float]], colour: str = INK) -> str:
    line = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
    return (
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2" '
        'marker-end="url(#head)"/>'
    )


def row(lane: Lane, x: float, y: float, width: float, gap: float, colour: str) -> list[str]:
    """Boxes of a lane from left to right, with arrows in between."""
    drawn = []
    for i, (title, about) in enumerate(lane):
        left = x + i * (width + gap)
        drawn += box(left, y, width, title, about, colour)
        if i:
            middle = y + BOX_HEIGHT / 2
            drawn.append(arrow([(left - gap, middle), (left - 2, middle)]))
    return drawn


def heading(y: float, words: str, colour: str) -> str:
    return text(30, y, words, 16, colour, 'font-weight="700" style="text-anchor:start"')


def pretrain_lane() -> list[str]:
    drawn = [
        '<rect x="190" y="52" width="702" height="128" rx="12" fill="#f4f2fb" stroke="none"/>',
        text(541, 170, "trainers.py runs this as one compiled loop or around a host world;"
             " training.py logs, saves, stops", 13, MUTED),
        heading(36, "dusdi pretrain", PURPLE),
        *row(PRETRAIN, 30, 84, 154, 20, PURPLE),
        arrow([(803, 84), (803, 66), (281, 66), (281, 82)], PURPLE),
        text(542, 61, "act: actions [n, A]", 13, PURPLE),
        arrow([(1054, 115), (1082, 115)]),
        *file(1084, 84, "policy.safetensors"),
    ]  # fmt: skip
    return drawn


def evaluate_lane() -> list[str]:
    return [
        heading(232, "dusdi evaluate", GREEN),
        *row(EVALUATE, 30, 244, 190, 30, GREEN),
        arrow([(880, 275), (928, 275)]),
        *file(930, 244, "dci.png"),
        # The policy of skills goes to the two lanes that use it.
        arrow([(1154, 146), (1154, 208), (190, 208), (190, 242)]),
    ]


def downstream_lane() -> list[str]:
    return [
        heading(356, "dusdi downstream", ORANGE),
        *row(DOWNSTREAM, 30, 374, 180, 28, ORANGE),
        arrow([(1042, 405), (1082, 405)]),
        *file(1084, 374, "policy.safetensors"),
        arrow([(1190, 146), (1190, 336), (328, 336), (328, 372)]),
        text(760, 330, "frozen skills", 13, MUTED),
        arrow([(1154, 436), (1154, 452), (125, 452), (125, 466)]),
        *row(MEASURE, 30, 468, 190, 30, ORANGE),
        arrow([(880, 499), (928, 499)]),
        *file(930, 468, "fig4.png"),
    ]


def imports_strip() -> list[str]:
    width = 128
    drawn = [text(WIDTH / 2, 566, "imports point only to the left", 14, INK)]
    for i, (first, second) in enumerate(LAYERS):
        x = 30 + i * (width + 3.5)
        shade = f'fill="{PAPER}" stroke="{GREY}"'
        drawn.append(f'<rect x="{x}" y="580" width="{width}" height="54" rx="6" {shade}/>')
        drawn.append(text(x + width / 2, 603, first, 13, INK))
        drawn.append(text(x + width / 2, 622, second, 13, INK))
    drawn.append(arrow([(WIDTH / 2 - 120, 561), (34, 561), (34, 576)], GREY))
    return drawn


def main() -> None:
    head = (
        '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10Z" fill="{INK}"/></marker>'
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="Helvetica, Arial, DejaVu Sans, sans-serif">',
        "<title>How data flows through dusdi</title>",
        f"<defs>{head}</defs>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fbfbfd"/>',
        *pretrain_lane(),
        *evaluate_lane(),
        *downstream_lane(),
        *imports_strip(),
        "</svg>",
    ]
    FILE.write_text("\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
