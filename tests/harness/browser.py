"""A headless Chromium for tests of Airflow's pages, driven by Selenium.

Browser and driver are Debian's packages `chromium` and `chromium-driver`.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from selenium import webdriver

if TYPE_CHECKING:
    from collections.abc import Iterator

# A container has neither the kernel's sandbox nor much shared memory.
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,1000")


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """Open a browser for a block; skip the test on a machine without Chromium."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no Chromium: install Debian's packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for option in OPTIONS:
        options.add_argument(option)
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)) as window:
        yield window
