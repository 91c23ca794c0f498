"""Package a Spark job for a cluster: the job's file, and a zip of its modules."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from importlib.resources import files
from pathlib import Path
from uuid import uuid4

PACKAGE = "airflow_provider_sfevents"
DISTRIBUTION = "airflow-provider-sfevents"
_SHARED = (
    "__init__.py",
    "change_bitmaps.py",
    "counting.py",
    "exceptions.py",
    "steps.py",
    "staging/__init__.py",
    "staging/layout.py",
    "staging/manifest.py",
    "staging/payload_bounds.py",
    "staging/sidecar_files.py",
)
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can hold


def root() -> Path:
    """Folder of this package."""
    return Path(str(files(PACKAGE)))


def application(job: str = "land") -> Path:
    """Path of a job, for `spark-submit`.

    :param job: `land`, `apply`, `entity_snapshot`, `maintain` or `probe`.
    """
    return root() / "spark" / f"{job}.py"


def shipped_modules() -> tuple[str, ...]:
    """List the job's modules as paths below the package, sorted."""
    room = root() / "spark"
    here = (f"spark/{path.relative_to(room).as_posix()}" for path in room.rglob("*.py"))
    return tuple(sorted([*_SHARED, *here]))


def py_files(folder: Path) -> Path:
    """Make the zip for `--py-files` in a folder; a file of other content is replaced.

    Equal code gives equal bytes and the same name.
    """
    name, content = modules()
    target = folder / name
    if not target.is_file() or target.read_bytes() != content:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{uuid4().hex}")
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)  # two workers may make it at once
    return target


def modules() -> tuple[str, bytes]:
    """Return name and content of the zip; the name has the content's hash."""
    content = _zip()
    return f"sfevents-{hashlib.sha256(content).hexdigest()[:16]}.zip", content


def _zip() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in shipped_modules():
            entry = zipfile.ZipInfo(f"{PACKAGE}/{name}", _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, (root() / name).read_bytes())
    return content.getvalue()
