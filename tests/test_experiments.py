"""What an experiment runs, and what it refuses."""

import dataclasses
import re
import sys

import pandas as pd
import pytest
from canned import FIRST, SECOND, page

from dusdi.errors import DusdiError, UsageError
from dusdi.experiments import reproduce
from dusdi.experiments.settings import paper_worlds

# --- what is run ---


def test_every_method_is_measured_right_after_its_run(fake, settings):
    files = reproduce("table1", dataclasses.replace(settings, worlds=(FIRST,), seeds=1))
    assert fake.take() == [
        f"expert {FIRST}-expert",
        f"skills {FIRST}-dusdi-seed0",
        f"dci {FIRST}-dusdi-seed0",
        f"skills {FIRST}-diayn-mc-seed0",
        f"dci {FIRST}-diayn-mc-seed0",
        f"skills {FIRST}-susd-seed0",
        f"dci {FIRST}-susd-seed0",
    ]
    assert {path.name for path in files} == {"table1.csv", "table1.md", "table1.png"}
    assert all(path.stat().st_size for path in files)


def test_what_has_a_record_is_not_done_again_even_without_its_run(fake, settings):
    reproduce("table1", settings)
    assert len(fake.take()) == 2 * (1 + 3 * 2 * 2)
    before = (settings.out / "table1.csv").read_text()
    elsewhere = dataclasses.replace(settings, runs=settings.runs / "other")
    reproduce("table1", elsewhere)
    assert fake.take() == []
    assert (settings.out / "table1.csv").read_text() == before


def test_a_table_is_extended_by_a_method_and_by_seeds(fake, settings):
    ours = dataclasses.replace(settings, worlds=(FIRST,), methods=("dusdi", "diayn-mc"))
    reproduce("table1", ours)
    fake.take()
    reproduce("table1", dataclasses.replace(ours, methods=("dusdi", "diayn-mc", "diayn")))
    assert fake.take() == [
        f"{kind} {FIRST}-diayn-seed{seed}" for seed in (0, 1) for kind in ("skills", "dci")
    ]
    frame = pd.read_csv(settings.out / "table1.csv")
    assert list(frame["method"].unique()) == ["dusdi", "diayn-mc", "diayn", "scripted reference"]
    reproduce("table1", dataclasses.replace(ours, seeds=3))
    assert {name.split("-seed")[1] for name in fake.take()} == {"2"}


def test_records_of_other_settings_are_not_used(fake, settings):
    reproduce("table1", settings)
    count = len(fake.take())
    reproduce("table1", dataclasses.replace(settings, fields={"alpha": 0.5}))
    assert len(fake.take()) == count - 2  # but for the scripted experts
    measured_longer = dataclasses.replace(settings, evaluation_steps=5_000)
    reproduce("table1", measured_longer)
    assert {name.split()[0] for name in fake.take()} == {"dci", "expert"}


def test_figures_share_runs_with_tables_and_with_each_other(fake, settings):
    ours = dataclasses.replace(settings, worlds=(FIRST,), seeds=1)
    reproduce("table1", ours)
    fake.take()
    reproduce("fig3", ours)
    assert fake.take() == [f"skills {FIRST}-dusdi-decompose_q=False-seed0"]
    task = f"{FIRST}/limited"
    methods = ("dusdi", "diayn", "diayn-mc", "sac")
    reproduce("fig4", dataclasses.replace(ours, worlds=(), tasks=(task,), methods=methods))
    name = f"{FIRST}-limited"
    assert fake.take() == [
        f"task {name}-dusdi-ppo-seed0",
        f"return {name}-dusdi-ppo-seed0",
        f"skills {FIRST}-diayn-seed0",
        f"task {name}-diayn-ppo-seed0",
        f"return {name}-diayn-ppo-seed0",
        f"task {name}-diayn-mc-ppo-seed0",
        f"return {name}-diayn-mc-ppo-seed0",
        f"task {name}-sac-seed0",
        f"return {name}-sac-seed0",
    ]


def test_other_worlds_are_shown_if_they_have_records_and_named_if_not(fake, settings):
    reproduce("table1", dataclasses.replace(settings, worlds=(SECOND,)))
    reproduce("table1", dataclasses.replace(settings, worlds=(FIRST,)))
    text = page(settings, "table1")
    assert re.findall("^## (.*)$", text, re.M) == [FIRST, SECOND]
    (third,) = set(paper_worlds()) - {FIRST, SECOND}
    assert f"- Not shown, since there are no records: {third}.\n" in text
    reproduce("table1", dataclasses.replace(settings, worlds=(FIRST,), methods=("dusdi", "diayn")))
    left = f"- Not shown, since there are no records: {third}; {SECOND} (diayn).\n"
    assert left in page(settings, "table1")


def test_rows_with_fewer_seeds_are_counted_and_not_called_missing(fake, settings):
    some = dataclasses.replace(settings, worlds=(FIRST,))
    reproduce("table1", dataclasses.replace(some, seeds=1))
    reproduce("table1", dataclasses.replace(some, worlds=(SECOND,), seeds=2))
    text = page(settings, "table1")
    assert f"- Rows have fewer seeds where jobs have no record: 3 in {FIRST}.\n" in text
    assert f"no records: {FIRST}" not in text


def test_a_failure_is_told_at_the_end_and_what_is_done_is_kept(fake, settings, capsys):
    def fail(job):
        raise ZeroDivisionError("no luck")

    works = fake.scores["dci"]
    fake.scores["dci"] = lambda job: fail(job) if "diayn" in job.name else works(job)
    ours = dataclasses.replace(settings, progress=True, worlds=(FIRST,))
    with pytest.raises(DusdiError, match=r"2 of 13 jobs failed; the first, dci gunner-2d-diayn-mc"):
        reproduce("table1", ours)
    assert len(fake.take()) == 13
    assert "failed (dci: gunner-2d-diayn-mc-seed0): " in capsys.readouterr().err
    assert not (settings.out / "table1.csv").exists()
    fake.scores["dci"] = works
    reproduce("table1", ours)
    assert fake.take() == [f"dci {FIRST}-diayn-mc-seed{seed}" for seed in (0, 1)]


def test_with_several_jobs_at_a_time_progress_is_told_in_lines(fake, settings, capsys):
    ours = dataclasses.replace(settings, worlds=(FIRST,), seeds=1, progress=True)
    reproduce("fig3", ours)
    said = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in said] == ["1 of 2 done", "2 of 2 done"]
    assert said[-1].endswith(f"(skills: {FIRST}-dusdi-decompose_q=False-seed0)")


# --- mistakes ---


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("table9", {}, "did you mean table1"),
        ("fig3", {"seeds": 0}, "seeds must be at least 1"),
        ("tuning", {"seeds": 11}, "at most 10, not 11: 0 to 9 are for reporting"),
        ("fig3", {"fields": {"steps": 300}}, "the first 320 are random"),
        ("fig4", {"task_fields": {"steps": 300}, "worlds": ()}, "the first 320 are random"),
        ("table1", {"evaluation_steps": 100}, "evaluation_steps must be at least 2,000"),
        ("table1", {"jobs": 0}, "jobs must be at least 1"),
        ("table1", {"worlds": ("houshold",)}, "did you mean household"),
        ("fig4", {"tasks": ("household/inspec",)}, "did you mean household/inspect"),
        ("fig3", {"worlds": ("walker",)}, "nothing to do with these worlds"),
        ("table1", {"methods": ("dusd",)}, "did you mean dusdi"),
        ("table1", {"preset": "slow"}, "unknown preset 'slow'"),
    ],
)
def test_mistakes_are_explained_before_anything_is_done(fake, settings, name, changes, message):
    with pytest.raises(UsageError, match=message):
        reproduce(name, dataclasses.replace(settings, **changes))
    assert fake.take() == [] and not settings.out.exists()


def test_without_pandas_the_command_to_install_it_is_told(settings, monkeypatch):
    for name in ("table1", "dci_table", "results"):
        monkeypatch.delitem(sys.modules, f"dusdi.experiments.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match=r"pip install 'dusdi\[reproduce\]'"):
        reproduce("table1", settings)


def test_nothing_is_nan_in_a_page(fake, settings):
    for name in ("table1", "fig3"):
        reproduce(name, settings)
        assert not re.search(r"\bnan\b|\bNone\b", page(settings, name))
