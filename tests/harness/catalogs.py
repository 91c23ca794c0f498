"""Catalog servers on the loopback interface, each in its own JVM.

The Iceberg REST server is the one of Iceberg's own tests.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.submit.java import find_java
from airflow_provider_sfevents.submit.preflight import installed_pyspark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.harness.jars import Jars


@contextmanager
def rest_catalog(jars: Jars, folder: Path) -> Iterator[str]:
    """Serve a catalog with its names in SQLite and all files in a folder; yield its URI."""
    # Only these jars of Spark, which has an older servlet API.
    hadoop = [*_of_spark("hadoop-client-*.jar"), *_of_spark("commons-logging*.jar")]
    with _java([*jars.rest_catalog, *hadoop]) as java:
        properties = java.java.util.HashMap()
        folder.mkdir()
        properties.put("warehouse", str(folder))
        properties.put("uri", f"jdbc:sqlite:{folder}/names.db")
        properties.put("jdbc.schema-version", "V1")
        catalog = java.org.apache.iceberg.jdbc.JdbcCatalog()
        catalog.setConf(java.org.apache.hadoop.conf.Configuration())
        catalog.initialize("rest", properties)
        adapter = java.org.apache.iceberg.rest.RESTCatalogAdapter(catalog)
        servlet = java.org.apache.iceberg.rest.RESTCatalogServlet(adapter)
        jetty = java.org.eclipse.jetty
        context = jetty.ee10.servlet.ServletContextHandler()
        context.addServlet(jetty.ee10.servlet.ServletHolder(servlet), "/*")
        server = jetty.server.Server(java.java.net.InetSocketAddress("127.0.0.1", 0))
        server.setHandler(context)
        server.start()
        yield f"http://127.0.0.1:{server.getURI().getPort()}"


@contextmanager
def _java(paths: Sequence[Path]) -> Iterator[Any]:
    """Start a JVM with this class path; it ends with the block, and with this process."""
    from py4j.java_gateway import JavaGateway

    gateway = JavaGateway.launch_gateway(
        jarpath=str(_of_spark("py4j-*.jar")[0]),
        classpath=":".join(map(str, paths)),
        java_path=f"{find_java().home}/bin/java",
        die_on_exit=True,
    )
    try:
        yield gateway.jvm
    finally:
        gateway.close()
        with gateway.java_process as process:
            process.kill()


def _of_spark(pattern: str) -> list[Path]:
    home = installed_pyspark()
    assert home is not None
    return sorted((home / "jars").glob(pattern))
