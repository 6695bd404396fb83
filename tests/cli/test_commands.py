"""The commands as a user meets them: help, documentation, start-up, real processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
import typer.main

from fairpca.cli.app import app
from fairpca.data.files.kinds import read_table

COMMANDS = typer.main.get_command(app).commands
DOCS = Path(__file__).parents[2] / "docs" / "cli.md"


def process(*arguments, **options):
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "fairpca", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        **options,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_complete_help(name):
    command = COMMANDS[name]
    assert "For example:" in command.help
    assert f"`fairpca {name}" in command.help
    assert "Exit codes" in command.epilog
    for parameter in command.params:
        if parameter.name != "help":
            assert getattr(parameter, "help", None), f"{name}: {parameter.name} has no help"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name):
    text = DOCS.read_text("utf-8")
    section = re.search(rf"^## `fairpca {name}`$(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert section, f"docs/cli.md has no section on fairpca {name}"
    for parameter in COMMANDS[name].params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            if option.startswith("--") and option != "--help":
                assert option in section[1], f"docs/cli.md does not tell of {name} {option}"


def test_documented_exit_codes_are_the_real_ones():
    from fairpca.cli import errors

    text = DOCS.read_text("utf-8")
    for name in ("INTERNAL", "USAGE", "BAD_INPUT", "BAD_OUTPUT", "INTERRUPTED"):
        assert re.search(rf"^\| {getattr(errors, name)} \|", text, re.M)


def test_help_and_version():
    done = process("--help")
    assert done.returncode == 0
    for name in COMMANDS:
        assert name in done.stdout
    assert re.fullmatch(r"fairpca \d\S+\n", process("--version").stdout)


def test_help_imports_nothing_heavy():
    code = """
        import sys
        import fairpca
        before = set(sys.modules)
        sys.argv = ["fairpca", "--help"]
        from fairpca.cli import main
        try:
            main()
        except SystemExit:
            pass
        known = {"numpy", "scipy", "sklearn", "pyarrow", "plotly", "pandas", "fairlearn", "jinja2"}
        print("heavy:", sorted(known & (set(sys.modules) - before)))
    """
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    assert "heavy: []" in done.stdout


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_the_extra(tmp_path, package):
    code = f"""
        import sys
        sys.modules["{package}"] = None
        from fairpca.cli import main
        main()
    """
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert 'pip install "fairpca[cli]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_whole_flow_in_processes(folder):
    fit = process("fit", "people.csv", "-s", "sex", "-y", "hired", "-d", "id", "-o", "m.fairpca")
    assert fit.returncode == 0, fit.stderr
    done = process("transform", "m.fairpca", "people.csv", "-o", "z.csv", "--keep", "id")
    assert done.returncode == 0, done.stderr
    assert read_table("z.csv").num_rows == 400
    assert (
        "\x1b" not in fit.stdout + fit.stderr + done.stdout + done.stderr
    )  # no terminal, no colours


def test_ctrl_c_in_a_real_process(folder, model):
    """Interrupted while it writes: one line, exit code 130, the old file."""
    people = read_table("people.csv")
    pyarrow.csv.write_csv(pa.concat_tables([people] * 1_500), "many.csv")  # 600,000 rows
    (folder / "z.csv").write_text("old")
    running = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "fairpca", "transform", model, "many.csv", "-o", "z.csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while running.poll() is None and not [n for n in os.listdir() if n.endswith(".partial")]:
        time.sleep(0.005)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    assert stderr == "error: Interrupted; no output was changed.\n"
    assert (folder / "z.csv").read_text() == "old"
    assert sorted(os.listdir()) == ["m.fairpca", "many.csv", "people.csv", "z.csv"]


def test_output_that_nobody_reads(folder):
    code = "fairpca() { " + f"'{sys.executable}' -m fairpca \"$@\"; }}; "
    done = subprocess.run(  # noqa: S603
        ["bash", "-c", code + "fairpca datasets adult | head -1; echo ${PIPESTATUS[0]}"],  # noqa: S607
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1] in ("0", "141")
    assert "Traceback" not in done.stderr


def test_no_color(folder):
    done = process("datasets", env={**os.environ, "NO_COLOR": "1", "FORCE_COLOR": "1"})
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", done.stdout)


def test_datasets(call):
    done = call("datasets")
    assert done.exit_code == 0
    for name in ("german_credit", "adult", "compas", "CC BY 4.0"):
        assert name in done.stdout
    done = call("datasets", "german-credit", "-o", "german.csv")
    assert done.exit_code == 0
    table = read_table("german.csv")
    assert table.num_rows == 1000
    assert {"credit", "age", "sex"} <= set(table.column_names)
    assert "License" in call("datasets", "compas").stdout
    assert call("datasets", "iris").exit_code == 2
    assert call("datasets", "adult", "-o", "a.xlsx").exit_code == 2
    assert call("datasets", "-o", "a.csv").exit_code == 2
