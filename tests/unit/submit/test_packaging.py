"""Files of a job for a cluster."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from airflow_provider_sfevents.submit import packaging

# Imports every module of the zip in a process that refuses Airflow and gRPC, as on an executor.
# PySpark is refused, too, but for the one module whose classes extend those of PySpark.
ISOLATED = """
import importlib, sys, zipfile
class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top == "pyspark" and importing == "airflow_provider_sfevents.spark.source.data_source":
            return None
        if top in {"airflow", "grpc", "google", "upath", "fsspec", "httpx", "pyspark"}:
            raise AssertionError(f"imports {name}")
sys.meta_path.insert(0, Refuse())
sys.path.insert(0, sys.argv[1])
found = zipfile.ZipFile(sys.argv[1]).namelist()
names = [n[:-3].removesuffix("/__init__").replace("/", ".") for n in found]
for importing in names:
    module = importlib.import_module(importing)
    assert sys.argv[1] in module.__file__, module.__file__
print(len(names))
"""


def test_the_zip_holds_the_job_and_what_it_stands_on(tmp_path: Path) -> None:
    """The zip has all modules of the job, and none of the Airflow side."""
    names = zipfile.ZipFile(packaging.py_files(tmp_path)).namelist()

    room = Path(packaging.application()).parent
    assert names == [f"airflow_provider_sfevents/{name}" for name in packaging.shipped_modules()]
    assert {f"airflow_provider_sfevents/spark/{path.name}" for path in room.glob("*.py")} < set(
        names
    )
    assert {name.split("/")[1] for name in names} == {
        "__init__.py",
        "change_bitmaps.py",
        "counting.py",
        "exceptions.py",
        "steps.py",
        "staging",
        "spark",
    }


def test_every_module_of_the_zip_imports_without_airflow_and_grpc(tmp_path: Path) -> None:
    """All modules of the zip import without Airflow and gRPC, and all but one without PySpark."""
    zipped = packaging.py_files(tmp_path)

    done = subprocess.run(
        [sys.executable, "-c", ISOLATED, str(zipped)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )

    assert (done.returncode, done.stdout.strip()) == (0, str(len(packaging.shipped_modules()))), (
        done.stderr
    )


def test_equal_code_makes_the_same_file(tmp_path: Path) -> None:
    """Two workers that make the zip at once make the same bytes under the same name."""
    one, other = packaging.py_files(tmp_path / "one"), packaging.py_files(tmp_path / "other")

    assert one.name == other.name
    assert one.read_bytes() == other.read_bytes()
    assert packaging.py_files(tmp_path / "one") == one
    assert [path.name for path in one.parent.iterdir()] == [one.name]


def test_a_zip_with_other_content_is_replaced(tmp_path: Path) -> None:
    """A damaged or changed zip is replaced before Spark gets it."""
    zipped = packaging.py_files(tmp_path)
    right = zipped.read_bytes()
    for wrong in (right[:100], b"not a zip"):
        zipped.write_bytes(wrong)
        assert packaging.py_files(tmp_path).read_bytes() == right


def test_no_module_beside_the_job_hides_one_of_pythons() -> None:
    """No module beside the job has the name of one of Python's own."""
    names = {path.stem for path in packaging.application().parent.glob("*.py")}

    assert names & sys.stdlib_module_names == set()
