"""Configuration of the documentation's site: `make docs` builds it in build/docs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import urlopen

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parent.parent
SOURCE = "https://github.com/airflow-provider-sfevents/airflow-provider-sfevents"

project = "airflow-provider-sfevents"
author = "Seed e94ed2c2 maintainers"
project_copyright = "the airflow-provider-sfevents maintainers"
_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
release = _VERSION.findall((ROOT / "airflow_provider_sfevents" / "__init__.py").read_text())[0]

extensions = ["myst_parser", "autoapi.extension", "sphinx.ext.intersphinx"]
html_theme = "furo"
html_title = f"airflow-provider-sfevents {release}"
html_theme_options = {
    "source_repository": SOURCE,
    "source_branch": "main",
    "source_directory": "docs/",
}
pygments_style = "friendly"
exclude_patterns = ["_inventories"]
myst_heading_anchors = 4
default_role = "code"  # docstrings have names in single backticks

# The reference of classes comes from docstrings. They are parsed and not imported, so that a build
# needs neither Airflow nor Spark. Only the modules that a reference page names are parsed.
autoapi_dirs = [str(ROOT / "airflow_provider_sfevents")]
autoapi_generate_api_docs = False
autoapi_add_toctree_entry = False
autoapi_python_class_content = "class"
autoapi_keep_files = False
_REFERENCE = ("hooks", "operators", "sensors", "triggers", "queues", "spark", "client")
autoapi_ignore = [
    *(
        f"*/airflow_provider_sfevents/{room.name}/*"
        for room in (ROOT / "airflow_provider_sfevents").iterdir()
        if room.is_dir() and room.name not in _REFERENCE
    ),
    "*/airflow_provider_sfevents/spark/*/*",
]
suppress_warnings = ["autoapi.python_import_resolution"]  # of modules that are not parsed


# Links from the class reference to Airflow's documentation. Without a network they stay plain text.
_AIRFLOW = "https://airflow.apache.org/docs"
_OTHERS = {
    "airflow": f"{_AIRFLOW}/apache-airflow/stable/",
    "task-sdk": f"{_AIRFLOW}/task-sdk/stable/",
    "spark-provider": f"{_AIRFLOW}/apache-airflow-providers-apache-spark/stable/",
}
_INVENTORIES = Path(__file__).parent / "_inventories"


def _inventory(name: str, base: str) -> Path | None:
    """File with the names that another site documents, fetched once; None without a network."""
    kept = _INVENTORIES / f"{name}.inv"
    if not kept.exists():
        try:
            with urlopen(f"{base}objects.inv", timeout=5) as answer:  # noqa: S310 - https, above
                content = answer.read()
        except (URLError, TimeoutError):
            return None
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(content)
    return kept


intersphinx_mapping = {
    name: (base, str(kept)) for name, base in _OTHERS.items() if (kept := _inventory(name, base))
}

_OUTWARD = re.compile(
    r"\]\((?:\.\./)+(?!(?:tutorials|how-to|reference|explanation|images)/)([^)#]+)"
)
_LISTED = re.compile(r"^- \[[^\]]+\]\(([\w/-]+)\.md\)", re.MULTILINE)


def _links_to_code(text: str) -> str:
    """Relative links that leave docs/ lead to the repository."""
    return _OUTWARD.sub(lambda found: f"]({SOURCE}/blob/main/{found[1]}", text)


def _navigation(text: str) -> str:
    """The sections of docs/index.md as the site's side bar: one toctree for each `##` heading."""
    trees = []
    for section in text.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        pages = "\n".join(_LISTED.findall(section))
        trees.append(f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{pages}\n```\n")
    return text + "".join(trees)


def _read(_app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = _links_to_code(source[0])
    if page == "index":
        source[0] = _navigation(source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
