"""Built-in objects, with common fields in the order of live orgs."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_sfevents.emulator.org.objects.object_definitions import STAMPS


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardObject:
    """A built-in object.

    :param own: fields before the system fields.
    :param more: fields after them.
    :param owned: records have an owner.
    :param tracked: changes are published.
    """

    prefix: str
    own: dict[str, str]
    required: tuple[str, ...]
    more: dict[str, str]
    owned: bool = True
    tracked: bool = True

    def fields(self) -> dict[str, str]:
        owner = {"OwnerId": "Lookup"} if self.owned else {}
        return {**self.own, **owner, **STAMPS, **self.more}


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
    "PushTopic": StandardObject(
        prefix="0IF",
        own={
            "Name": "Text",
            "Query": "Text",
            "ApiVersion": "Double",
            "IsActive": "Checkbox",
            "NotifyForFields": "Picklist",
            "NotifyForOperationCreate": "Checkbox",
            "NotifyForOperationUpdate": "Checkbox",
            "NotifyForOperationDelete": "Checkbox",
            "NotifyForOperationUndelete": "Checkbox",
            "Description": "Text",
        },
        required=("Name", "Query", "ApiVersion"),
        more={},
        owned=False,
        tracked=False,
    ),
    "StreamingChannel": StandardObject(
        prefix="0M6",
        own={"Name": "Text", "Description": "Text", "IsDynamic": "Checkbox"},
        required=("Name",),
        more={},
        tracked=False,
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
