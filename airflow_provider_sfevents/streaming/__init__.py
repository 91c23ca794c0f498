"""The Streaming API (CometD, Bayeux protocol) as a transport, without Airflow, gRPC and Spark."""
