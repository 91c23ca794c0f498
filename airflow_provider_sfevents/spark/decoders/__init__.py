"""How staged payloads become typed columns: three ways, one result. `reference` says what that result is."""
