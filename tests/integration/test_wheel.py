from __future__ import annotations

import os
import site
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.airflow, pytest.mark.full]


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that would be published."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(repository))
    [built] = folder.glob("*.whl")
    return built


def pip(*arguments: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def test_wheel_holds_what_users_and_registry_look_for(wheel: Path, repository: Path) -> None:
    """Types marker, licence and .proto are in the wheel, and the DAGs of the repository as its examples."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        inside = "airflow_provider_sfevents/example_dags/"
        examples = {
            name.removeprefix(inside): archive.read(name)
            for name in names
            if name.startswith(inside)
        }
    assert "airflow_provider_sfevents/py.typed" in names
    assert "airflow_provider_sfevents/proto/pubsub_api.proto" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    dags = repository / "dags"
    wanted = [dags / ".airflowignore", *dags.rglob("*.py")]
    assert examples == {str(path.relative_to(dags)): path.read_bytes() for path in wanted}
    assert not [name for name in names if name.startswith(("tests/", "dags/", "scripts/"))]


def test_wheel_installed_into_an_airflow_is_a_provider(wheel: Path, tmp_path: Path) -> None:
    """The wheel, and not the checkout, is what an Airflow with it installed lists as provider and runs."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    pip("--python", str(environment), "install", "--no-deps", str(wheel))
    [packages] = environment.glob("lib/python*/site-packages")
    # Airflow and the rest are those of the tests; what lies in `packages` comes before them.
    (packages / "airflow.pth").write_text("\n".join(site.getsitepackages()))

    def run(*arguments: str) -> str:
        ran = subprocess.run(
            [str(environment / "bin" / "python"), *arguments],
            cwd=tmp_path,
            env=os.environ | {"AIRFLOW_HOME": str(tmp_path / "home")},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout
        return ran.stdout

    listed = run("-m", "airflow", "providers", "get", "airflow-provider-sfevents")
    where = run(
        "-c", "import airflow_provider_sfevents.hooks.sfevents as hook; print(hook.__file__)"
    )
    command = subprocess.run(
        [str(environment / "bin" / "sfevents-emulator"), "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "airflow-provider-sfevents" in listed
    assert str(packages) in where
    assert command.returncode == 0, command.stderr
