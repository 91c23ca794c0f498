"""Fields of an event, in words, from its schema."""

from __future__ import annotations

import json

from airflow_provider_sfevents.pubsub.topic_description import FieldDescription, fields_of

ADDRESS = {
    "type": "record",
    "name": "Address",
    "fields": [{"name": "Street", "type": "string"}, {"name": "City", "type": "string"}],
}
HEADER = {
    "type": "record",
    "name": "ChangeEventHeader",
    "fields": [{"name": "entityName", "type": "string"}],
}
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "AccountChangeEvent",
        "namespace": "com.sforce.eventbus",
        "fields": [
            {"name": "ChangeEventHeader", "type": HEADER, "doc": "Data:ComplexValueType"},
            {"name": "Name", "type": ["null", "string", {**ADDRESS, "name": "PersonName"}]},
            {"name": "BillingAddress", "type": ["null", ADDRESS], "doc": "Data:Address"},
            {"name": "ShippingAddress", "type": ["null", "Address"], "doc": "Data:Address"},
            {"name": "Amount__c", "type": ["null", "double"], "doc": "Data:Double:00NgL00000vXNVG"},
            {"name": "CreatedDate", "type": "long", "doc": "CreatedDate:DateTime"},
            {"name": "recordIds", "type": {"type": "array", "items": "string"}},
            {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
            {"name": "other", "type": {"type": "string"}},
            {"name": "named", "type": ["null", "com.sforce.eventbus.Address"]},
        ],
    }
)


def test_every_kind_of_field() -> None:
    """A field has a name, Avro's and Salesforce's type, and whether it may be missing."""
    assert fields_of(SCHEMA) == tuple(
        FieldDescription(name=name, type=kind, salesforce_type=salesforce, nullable=nullable)
        for name, kind, salesforce, nullable in (
            ("ChangeEventHeader", "ChangeEventHeader {entityName}", "ComplexValueType", False),
            ("Name", "string or PersonName {Street, City}", "", True),
            ("BillingAddress", "Address {Street, City}", "Address", True),
            ("ShippingAddress", "Address", "Address", True),
            ("Amount__c", "double", "Double", True),
            ("CreatedDate", "long", "DateTime", False),
            ("recordIds", "list of string", "", False),
            ("kind", "one of A, B", "", False),
            ("other", "string", "", False),
            ("named", "Address", "", True),
        )
    )
