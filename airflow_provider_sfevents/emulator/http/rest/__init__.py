"""REST, Tooling and Bulk APIs over an org's records; the rules are in `org/`."""
