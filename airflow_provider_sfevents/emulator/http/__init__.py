"""HTTP APIs of an org: logins, REST, and the admin API of the command line."""
