"""Start of Spark jobs on a worker: Java, preflight checks, deploy modes, the job's modules.

Nothing here imports Airflow or pyspark.
"""
