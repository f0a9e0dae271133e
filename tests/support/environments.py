"""Environments for packages that do not go with those of the other tests."""

import json
import subprocess
import sys

from support import components


def run_with(packages, script, folder, **values):
    """What a script prints as JSON, in an environment with these packages. It has the values."""
    uv, python = components.program("uv"), folder / "environment" / "bin" / "python"
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, python.parents[1]], check=True)
    install = [uv, "pip", "install", "-q", "--python", python, *packages]
    subprocess.run(install, check=True)
    (folder / "values.json").write_text(json.dumps(values))
    head = "import json\nglobals().update(json.load(open('values.json')))\n"
    done = subprocess.run(
        [python, "-c", head + script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
