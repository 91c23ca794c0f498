"""Generated from `pubsub_api.proto` by `make proto`; shared by client and emulator; not to be edited."""
