"""Other processes, and environments for packages that do not go with those of the tests."""

import json
import subprocess
import sys

from support import components


def run(*command, **options):
    """What a command prints, which must succeed."""
    command = [*map(str, command)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_with(packages, script, folder, **values):
    """What a script prints as JSON, in an environment with these packages. It has the values."""
    uv, python = components.program("uv"), folder / "environment" / "bin" / "python"
    run(uv, "venv", "-q", "--python", sys.executable, python.parents[1])
    run(uv, "pip", "install", "-q", "--python", python, *packages)
    (folder / "values.json").write_text(json.dumps(values))
    head = "import json\nglobals().update(json.load(open('values.json')))\n"
    return json.loads(run(python, "-c", head + script, cwd=folder).splitlines()[-1])
