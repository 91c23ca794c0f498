"""A browser on Airflow's pages, for the tests of the page *Salesforce events*."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.harness.airflow_runs import wait_until
from tests.harness.foreign_packages import node_modules

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A browser on Airflow's pages, as a person uses it."""

    browser: Chrome

    def click(self, selector: str, text: str) -> None:
        """Click the element with this text, as soon as it is there."""

        def clicked() -> bool:
            with suppress(StaleElementReferenceException):
                for one in self.browser.find_elements(By.CSS_SELECTOR, selector):
                    if one.text.strip() == text:
                        one.click()
                        return True
            return False

        wait_until(clicked, f"{text!r} can be clicked")

    def texts(self, selector: str) -> list[str]:
        with suppress(StaleElementReferenceException):
            return [one.text for one in self.browser.find_elements(By.CSS_SELECTOR, selector)]
        return []

    def press(self, *keys: str) -> None:
        """Press keys where the focus is."""
        ActionChains(self.browser).send_keys(*keys).perform()

    def focused(self) -> str:
        with suppress(StaleElementReferenceException):
            return str(self.browser.switch_to.active_element.text)
        return ""

    def complaints(self) -> list[str]:
        """Return what the accessibility checker axe-core finds wrong on the page."""
        self.browser.execute_script((node_modules() / "axe-core/axe.min.js").read_text())
        found = self.browser.execute_async_script(
            "axe.run('main').then(arguments[0], error => arguments[0]({failed: String(error)}))"
        )
        assert "failed" not in found, found
        assert found["passes"], "the checker has seen the page"
        return [f"{one['id']}: {one['nodes'][0]['failureSummary']}" for one in found["violations"]]

    def require_accessible(self) -> None:
        """Check the page in Airflow's two modes."""
        for mode in ("dark", "light"):
            self.switch(mode)
            assert self.complaints() == [], mode

    def switch(self, mode: str) -> None:
        """Switch Airflow to this mode in its own menu."""
        self.click("button", "User")
        self.click("[role=menuitem]", "Appearance")
        self.click("[role=menuitemradio]", f"{mode.capitalize()} Mode")
        shown = f"return document.documentElement.classList.contains('{mode}')"
        wait_until(lambda: self.browser.execute_script(shown), f"the {mode} mode")
        self.press(Keys.ESCAPE)
        wait_until(lambda: not any(self.texts("[role=menuitem]")), "the menu is closed")

    def levels(self) -> dict[str, str]:
        """Level of the age of each position of the overview, by consumer."""
        with suppress(StaleElementReferenceException):
            rows = self.browser.find_elements(By.CSS_SELECTOR, "tr[data-consumer]")
            return {
                str(row.get_attribute("data-consumer")): str(
                    row.find_element(By.CSS_SELECTOR, "[data-level]").get_attribute("data-level")
                )
                for row in rows
            }
        return {}
