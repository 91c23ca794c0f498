"""The connection form and its Test button, in the pages of a real Airflow."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from airflow_provider_sfevents.emulator import Emulator
from tests.harness.airflow_runs import wait_until
from tests.harness.airflow_services import AirflowServices
from tests.harness.browser import chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

    from tests.harness.airflow_home import AirflowHome

pytestmark = [pytest.mark.airflow, pytest.mark.full]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionsPage:
    """The page *Admin → Connections*, as a person uses it."""

    browser: Chrome
    url: str

    def create(self, conn_id: str, bus: Emulator, port: str) -> None:
        """Fill in the fields that README names, and those for the emulator; save."""
        self.browser.get(self.url)
        self._button("Add Connection").click()
        self._field("connection_id").send_keys(conn_id)
        kind = self._element("[role=dialog] [role=combobox]")
        kind.send_keys("Salesforce Events")
        wait_until(lambda: self._shown("[role=option]"), "the connection type is offered")
        kind.send_keys(Keys.ENTER)
        told = bus.connection()
        for name in ("host", "login", "password"):
            self._field(name).send_keys(told[name])
        self._field("port").send_keys(port)
        self._button("Extra Fields").click()
        self._element("#element_pubsub_endpoint").send_keys(told["extra"]["pubsub_endpoint"])
        self._element("[id='switch:element_plaintext']").click()
        self._save()

    def describe(self, text: str) -> None:
        """Edit the only connection: add a description. No test result may cover the form."""
        self.browser.get(self.url)
        self._element("button[aria-label='Edit Connection']").click()
        self._field("description").send_keys(text)
        self._save()

    def test(self) -> str:
        """Press the only connection's Test button, and read the answer below its heading."""
        self.browser.get(self.url)
        self._element("button[aria-label='Test Connection']").click()
        shown = "[data-scope=toast][data-part=description]"
        answer: str = wait_until(lambda: self._text(shown), "an answer")
        return answer

    def _save(self) -> None:
        self._button("Save").click()
        wait_until(lambda: not self._shown("[role=dialog]"), "the form is closed")

    def _field(self, name: str) -> WebElement:
        return self._element(f"[name={name}]")

    def _button(self, text: str) -> WebElement:
        def find() -> WebElement | None:
            with suppress(StaleElementReferenceException):
                for one in self.browser.find_elements(By.TAG_NAME, "button"):
                    if one.text.strip() == text and one.is_enabled():
                        return one
            return None

        button: WebElement = wait_until(find, f"the button {text!r}")
        return button

    def _element(self, selector: str) -> WebElement:
        def find() -> WebElement | None:
            found = self.browser.find_elements(By.CSS_SELECTOR, selector)
            return found[0] if found else None

        element: WebElement = wait_until(find, selector)
        return element

    def _shown(self, selector: str) -> bool:
        return bool(self.browser.find_elements(By.CSS_SELECTOR, selector))

    def _text(self, selector: str) -> str:
        with suppress(NoSuchElementException, StaleElementReferenceException):
            return self.browser.find_element(By.CSS_SELECTOR, selector).text
        return ""


@pytest.fixture
def page(airflow_home: AirflowHome) -> Iterator[ConnectionsPage]:
    """The page of an Airflow that allows tests of connections."""
    airflow_home.environment["AIRFLOW__CORE__TEST_CONNECTION"] = "Enabled"
    with chromium() as browser, AirflowServices.running(airflow_home, ("api-server",)) as airflow:
        yield ConnectionsPage(browser=browser, url=f"http://127.0.0.1:{airflow.port}/connections")


def test_a_connection_that_was_made_in_the_form_can_be_tested(page: ConnectionsPage) -> None:
    """With a Pub/Sub port the Test button names the org, also after an edit."""
    with Emulator() as bus:
        page.create("my_org", bus, bus.endpoint.rpartition(":")[2])
        assert bus.org.org_id in page.test()
        page.describe("ours")
        assert bus.org.org_id in page.test()


def test_airflow_refuses_to_test_a_connection_without_a_port(page: ConnectionsPage) -> None:
    """Without a port Airflow answers Bad Request, as docs/reference/connection.md says."""
    with Emulator() as bus:
        page.create("my_org", bus, "")
        assert "Bad Request" in page.test()
        assert not bus.requests
