"""Start of Spark jobs from an Airflow worker: Java, preflight checks, deploy modes, the job's modules. Neither Airflow nor pyspark."""
