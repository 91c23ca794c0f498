"""Salesforce's REST and Bulk APIs over an org's records: HTTP in front, what is decided behind it in `sobjects/`."""
