"""SOQL: parsing a query, and selecting the records that it asks for."""
