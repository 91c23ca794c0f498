"""The command line `sfevents-emulator`: arguments, and the calls of the admin API."""
