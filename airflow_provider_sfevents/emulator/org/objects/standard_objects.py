"""Built-in objects, with common fields in the order of live orgs."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_sfevents.emulator.org.objects.object_definitions import STAMPS


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardObject:
    """A built-in object.

    :param own: fields before the system fields.
    :param more: fields after them.
    """

    prefix: str
    own: dict[str, str]
    required: tuple[str, ...]
    more: dict[str, str]

    def fields(self) -> dict[str, str]:
        return {**self.own, "OwnerId": "Lookup", **STAMPS, **self.more}


STANDARD = {
    "Account": StandardObject(
        prefix="001",
        own={
            "Name": "Text",
            "Type": "Picklist",
            "ParentId": "Lookup",
            "BillingAddress": "Address",
            "ShippingAddress": "Address",
            "Phone": "Phone",
            "Fax": "Phone",
            "AccountNumber": "Text",
            "Website": "Url",
            "Sic": "Text",
            "Industry": "Picklist",
            "AnnualRevenue": "Currency",
            "NumberOfEmployees": "Integer",
            "Ownership": "Picklist",
            "TickerSymbol": "Content",
            "Description": "LongTextArea",
            "Rating": "Picklist",
            "Site": "Text",
        },
        required=("Name",),
        more={"AccountSource": "Picklist"},
    ),
    "Contact": StandardObject(
        prefix="003",
        own={
            "AccountId": "Lookup",
            "Name": "PersonName",
            "OtherAddress": "Address",
            "MailingAddress": "Address",
            "Phone": "Phone",
            "Fax": "Phone",
            "MobilePhone": "Phone",
            "HomePhone": "Phone",
            "ReportsToId": "Lookup",
            "Email": "Email",
            "Title": "Text",
            "Department": "Text",
            "LeadSource": "Picklist",
            "Birthdate": "Birthday",
            "Description": "LongTextArea",
        },
        required=("LastName",),
        more={"HasOptedOutOfEmail": "Checkbox"},
    ),
    "Opportunity": StandardObject(
        prefix="006",
        own={
            "AccountId": "Lookup",
            "Name": "Text",
            "Description": "LongTextArea",
            "StageName": "Picklist",
            "Amount": "Currency",
            "Probability": "Percent",
            "TotalOpportunityQuantity": "Number",
            "CloseDate": "Date",
            "Type": "Picklist",
            "NextStep": "Text",
            "LeadSource": "Picklist",
            "IsPrivate": "Checkbox",
        },
        required=("Name", "StageName", "CloseDate"),
        more={},
    ),
    "Lead": StandardObject(
        prefix="00Q",
        own={
            "Name": "PersonName",
            "Title": "Text",
            "Company": "Text",
            "Address": "Address",
            "Phone": "Phone",
            "MobilePhone": "Phone",
            "Email": "Email",
            "Website": "Url",
            "Description": "LongTextArea",
            "LeadSource": "Picklist",
            "Status": "Picklist",
            "Industry": "Picklist",
            "AnnualRevenue": "Currency",
            "NumberOfEmployees": "Integer",
        },
        required=("LastName", "Company"),
        more={"HasOptedOutOfEmail": "Checkbox"},
    ),
}
PERSON_FIELDS = {
    "PersonContactId": "Lookup",
    "PersonMailingAddress": "Address",
    "PersonMobilePhone": "Phone",
    "PersonEmail": "Email",
    "PersonTitle": "Text",
    "PersonBirthdate": "Birthday",
}
"""Additional fields of an account in an org with person accounts.

They hold values of the contact behind the account.
"""
