"""A realistic sample org with invented orders, shipments, accounts and contacts."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.org.objects.object_definitions import STAMPS
from airflow_provider_sfevents.emulator.org.objects.standard_objects import STANDARD

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.org.org_verbs import OrgVerbs

ORDERS = "/event/Order__e"
SHIPMENTS = "/event/Shipment__e"
SALES = "/event/Sales__chn"

_ORDER = {
    "Order_Number__c": "Text",
    "Customer__c": "Text",
    "City__c": "Text",
    "Status__c": "Picklist",
    "Amount__c": "Currency",
    "Quantity__c": "Number",
    "Express__c": "Checkbox",
    "Ordered_At__c": "DateTime",
    "Delivery_Date__c": "Date",
}
_SHIPMENT = {
    "Order_Number__c": "Text",
    "Carrier__c": "Picklist",
    "Tracking_Number__c": "Text",
    "Weight_Kg__c": "Number",
    "Shipped_At__c": "DateTime",
}
# Standard fields in the order of live orgs, which bitmaps count by.
_STAMPS = {"OwnerId": "Lookup", **STAMPS}
ACCOUNT = {**STANDARD["Account"].own, **_STAMPS, "Tier__c": "Picklist"}
CONTACT = {
    "AccountId": "Lookup",
    "Name": "PersonName",
    "OtherAddress": "Address",
    "MailingAddress": "Address",
    "Phone": "Phone",
    "Fax": "Phone",
    "MobilePhone": "Phone",
    "ReportsToId": "Lookup",
    "Email": "Email",
    "Title": "Text",
    "Department": "Text",
    "LeadSource": "Picklist",
    "Birthdate": "Birthday",
    "Description": "LongTextArea",
    **_STAMPS,
}
# Name, street, postal code, city, state, country, latitude, longitude.
_COMPANIES = (
    (
        "Nordwind Logistik",
        "Am Sandtorkai 12",
        "20457",
        "Hamburg",
        "Hamburg",
        "Germany",
        53.543,
        9.998,
    ),
    ("Atelier Lumière", "8 rue des Tanneurs", "37000", "Tours", "Centre", "France", 47.394, 0.684),
    (
        "Harbour & Sons",
        "21 Quay Street",
        "BS1 4DJ",
        "Bristol",
        "England",
        "United Kingdom",
        51.454,
        -2.587,
    ),
    (
        "Tres Ríos Café",
        "Calle 10 #43-21",
        "050021",
        "Medellín",
        "Antioquia",
        "Colombia",
        6.244,
        -75.574,
    ),
    (
        "Prairie Tools",
        "400 Wacouta St",
        "55101",
        "Saint Paul",
        "Minnesota",
        "United States",
        44.948,
        -93.087,
    ),
    ("Aoba Optics", "3-7-1 Chuo", "980-8671", "Sendai", "Miyagi", "Japan", 38.268, 140.869),
    (
        "Kestrel Robotics",
        "77 Innovation Rd",
        "M5V 3L9",
        "Toronto",
        "Ontario",
        "Canada",
        43.642,
        -79.387,
    ),
    ("Vinhos do Douro", "Rua Nova 5", "4050-430", "Porto", "Porto", "Portugal", 41.141, -8.613),
)
_FIRST = (
    "Amara",
    "Bruno",
    "Chiara",
    "Dmitri",
    "Elif",
    "Farid",
    "Greta",
    "Hana",
    "Iñigo",
    "Joan",
    "Kwame",
    "Lena",
)
_LAST = (
    "Okafor",
    "Silva",
    "Rossi",
    "Petrov",
    "Kaya",
    "Haddad",
    "Lindqvist",
    "Sato",
    "Etxeberria",
    "Moreau",
)


def define_sample(org: OrgVerbs) -> None:
    """Define the sample's topics.

    Two platform events, their channel, two entities and all changes.
    """
    org.define_event("Order__e", _ORDER)
    org.define_event("Shipment__e", _SHIPMENT)
    org.define_channel(SALES, (ORDERS, SHIPMENTS))
    org.define_entity("Account", ACCOUNT)
    org.define_entity("Contact", CONTACT)


def publish_sample(org: OrgVerbs, count: int, seed: int | None = None) -> dict[str, int]:
    """Publish `count` sample events and return the number per topic.

    :param seed: the same seed gives the same events; None: random.
    """
    events = _SampleEvents(random.Random(seed))  # noqa: S311 - plausible, guards nothing
    published: Counter[str] = Counter()
    for _ in range(count):
        event = events.next()
        published[event.topic] += 1
        if event.record_id:
            org.change(event.topic, event.change_type, event.record_id, event.fields)
        else:
            org.publish(event.topic, [event.fields])
    return dict(published)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleEvent:
    """One event of the sample.

    :param record_id: record of a change event; empty for a platform event.
    """

    topic: str
    fields: dict[str, Any]
    record_id: str = ""
    change_type: str = ""


class _SampleEvents:
    """Generator of sample events."""

    def __init__(self, source: random.Random) -> None:
        self._random = source
        self._orders: list[str] = []
        self._known: set[str] = set()

    def next(self) -> SampleEvent:
        [kind] = self._random.choices(
            (self._order, self._shipment, self._account, self._contact), (55, 20, 15, 10)
        )
        return kind()

    def _order(self) -> SampleEvent:
        pick = self._random
        company, at = pick.choice(_COMPANIES), self._moment()
        number = f"O-{pick.randrange(100_000, 1_000_000)}"
        self._orders.append(number)
        quantity = pick.randint(1, 40)
        fields = {
            "Order_Number__c": number,
            "Customer__c": company[0],
            "City__c": company[3],
            "Status__c": pick.choice(("New", "New", "Paid", "Cancelled")),
            "Amount__c": round(quantity * pick.uniform(4, 250), 2),
            "Quantity__c": quantity,
            "Express__c": pick.random() < 0.2,
            "Ordered_At__c": at,
            # Some orders have no delivery date.
            "Delivery_Date__c": at.date() + timedelta(days=pick.randint(1, 9))
            if pick.random() < 0.8
            else None,
        }
        return SampleEvent(topic=ORDERS, fields=fields)

    def _shipment(self) -> SampleEvent:
        pick = self._random
        fields = {
            "Order_Number__c": pick.choice(self._orders) if self._orders else "O-100000",
            "Carrier__c": pick.choice(("DHL", "UPS", "Correos", "Yamato")),
            "Tracking_Number__c": f"{pick.randrange(10**11, 10**12)}",
            "Weight_Kg__c": round(pick.uniform(0.1, 30), 1),
            "Shipped_At__c": self._moment(),
        }
        return SampleEvent(topic=SHIPMENTS, fields=fields)

    def _account(self) -> SampleEvent:
        at = self._random.randrange(len(_COMPANIES))
        name, record_id = _COMPANIES[at][0], salesforce_ids.record_id("001", 100 + at)
        whole = {
            "Name": name,
            "Type": "Customer",
            "BillingAddress": _address(at),
            "Phone": self._phone(),
            "Website": f"https://{name.split()[0].lower()}.example.com",
            "Industry": self._random.choice(
                ("Retail", "Transportation", "Manufacturing", "Hospitality")
            ),
            "AnnualRevenue": float(self._random.randrange(1, 900) * 100_000),
            "NumberOfEmployees": self._random.randrange(5, 4_000),
            "Tier__c": "Silver",
        }
        some: tuple[dict[str, Any], ...] = (
            {"Phone": self._phone(), "Rating": self._random.choice(("Hot", "Warm", "Cold"))},
            {
                "BillingAddress": {
                    "Street": f"{self._random.randint(1, 99)} New Street",
                    "PostalCode": None,
                }
            },
            {"Tier__c": self._random.choice(("Gold", "Silver", None))},
        )
        return self._change("Account", record_id, whole, self._random.choice(some))

    def _contact(self) -> SampleEvent:
        pick = self._random
        person, at = pick.randrange(60), pick.randrange(len(_COMPANIES))
        first, last = _FIRST[person % len(_FIRST)], _LAST[person % len(_LAST)]
        whole = {
            "AccountId": salesforce_ids.record_id("001", 100 + at),
            "Name": {"FirstName": first, "LastName": last},
            "MailingAddress": _address(at),
            "Email": f"contact{person}@example.com",
            "Title": pick.choice(("Buyer", "Director", "Engineer")),
            "Birthdate": date(1960, 1, 1) + timedelta(days=pick.randrange(16_000)),
        }
        some: tuple[dict[str, Any], ...] = (
            {"Name": {"LastName": f"{last}-{pick.choice(_LAST)}"}},
            {"Title": pick.choice(("Head of Purchasing", None))},
            {"MailingAddress": {"City": _COMPANIES[at][3]}, "MobilePhone": self._phone()},
        )
        return self._change(
            "Contact", salesforce_ids.record_id("003", 500 + person), whole, pick.choice(some)
        )

    def _change(
        self, entity: str, record_id: str, whole: dict[str, Any], some: dict[str, Any]
    ) -> SampleEvent:
        """Create a record before its updates, and delete it now and then."""
        topic = f"/data/{entity}ChangeEvent"
        if record_id not in self._known:
            self._known.add(record_id)
            return SampleEvent(topic=topic, record_id=record_id, change_type="CREATE", fields=whole)
        if self._random.random() < 0.08:
            self._known.discard(record_id)
            return SampleEvent(topic=topic, record_id=record_id, change_type="DELETE", fields={})
        return SampleEvent(topic=topic, record_id=record_id, change_type="UPDATE", fields=some)

    def _moment(self) -> datetime:
        """Random time within the last hour, in whole milliseconds."""
        back = timedelta(milliseconds=self._random.randrange(3_600_000))
        return datetime.now(UTC) - back

    def _phone(self) -> str:
        return f"+00 555 {self._random.randrange(10**6, 10**7)}"


def _address(company: int) -> dict[str, Any]:
    _, street, code, city, state, country, latitude, longitude = _COMPANIES[company]
    return {
        "Street": street,
        "City": city,
        "State": state,
        "PostalCode": code,
        "Country": country,
        "Latitude": latitude,
        "Longitude": longitude,
        "GeocodeAccuracy": "Address",
    }
