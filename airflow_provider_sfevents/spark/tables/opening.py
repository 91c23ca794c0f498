"""Open tables for landing: check the format's jars, set up its session, make its namespace."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.tables import delta, iceberg, naming
from airflow_provider_sfevents.spark.tables.delta import DeltaByPath
from airflow_provider_sfevents.spark.tables.merging.merged_tables import MergedTables
from airflow_provider_sfevents.spark.tables.named import Named
from airflow_provider_sfevents.spark.tables.parquet.parquet_tables import ParquetTables
from airflow_provider_sfevents.spark.tables.sessions import (
    CATALOGS,
    namespace_exists,
    own_session,
    reading_session,
)
from airflow_provider_sfevents.spark.tables.table_options import TableOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_sfevents.spark.files import Files
    from airflow_provider_sfevents.spark.tables.interface import Tables
    from airflow_provider_sfevents.spark.tables.naming import Place

logger = logging.getLogger(__name__)

USUAL = TableOptions()


def open_tables(
    spark: SparkSession,
    files: Files,
    table: str,
    table_format: str = naming.PARQUET,
    *,
    options: TableOptions = USUAL,
    landing_folder: str = "",
    reading: bool = False,
) -> Tables:
    """Open the tables that a batch lands in; nothing but a missing namespace is made.

    :param table: root URL, or a namespace's name.
    :param options: of tables that are made.
    :param landing_folder: URL of the folder for attempts and columns' types. Default: the root, or
        the namespace's location.
    :param reading: for a user's own reading, with the settings of the session; then nothing is
        made.
    :raises ConfigurationError: it cannot be; the message says what to change.
    """
    naming.check_tables(table, table_format, options.partition_by)
    place = naming.place_of(table, table_format)
    if isinstance(place, naming.Folder) and table_format == naming.PARQUET:
        # What is compared are a few columns of many small files.
        quick = {"spark.sql.parquet.filterPushdown": "false"}
        return ParquetTables(spark if reading else own_session(spark, quick), files, place.root)
    session, dialect, folder = open_dialect(
        spark, files, table, table_format, options, landing_folder=landing_folder, reading=reading
    )
    return MergedTables(session, files, folder, dialect)


def open_dialect(
    spark: SparkSession,
    files: Files,
    table: str,
    table_format: str,
    options: TableOptions = USUAL,
    *,
    landing_folder: str = "",
    reading: bool = False,
) -> tuple[SparkSession, DeltaByPath | Named, str]:
    """Open a root or namespace of a format with commits: session, format, and landing folder.

    Parameters as of `open_tables`.
    """
    place = naming.place_of(table, table_format)
    if not reading and not naming.renames_in_one_step(table):
        logger.warning(
            "Two landings at once in %s may not see each other: the store renames by copying. Land "
            "in it by one task at a time, or in a catalog's tables.",
            table,
        )
    session, dialect = open_format(spark, files, table, table_format, options, reading=reading)
    if isinstance(dialect, Named):
        dialect.ensure_namespace(make=not reading)
    if reading:
        return session, dialect, ""  # beside the tables is nothing that a reader needs
    return session, dialect, landing_folder.rstrip("/") or _side_folder(place, dialect)


def open_format(
    spark: SparkSession,
    files: Files,
    table: str,
    table_format: str,
    options: TableOptions = USUAL,
    *,
    reading: bool = False,
) -> tuple[SparkSession, DeltaByPath | Named]:
    """Set up a session for a format with commits; nothing is made.

    :param table: as of `open_tables`, as are the others.
    :raises ConfigurationError: the format or the catalog is not there; the message says what to
        add.
    """
    place = naming.place_of(table, table_format)
    made = reading_session if reading else own_session
    if table_format == naming.DELTA:
        delta.require(spark)
        catalog = place.catalog if isinstance(place, naming.Namespace) else naming.SESSION_CATALOG
        configured = str(spark.conf.get(f"{CATALOGS}{catalog}", ""))
        master = str(spark.conf.get("spark.master", ""))
        session = made(spark, delta.settings(catalog, master, configured))
        if isinstance(place, naming.Folder):
            session_catalog = f"{naming.SESSION_CATALOG}.default"
            namespace_exists(session, session_catalog, naming.DELTA)
            return session, DeltaByPath(files, place.root, options)
        delta.require_catalog(session, catalog)
        return session, Named(session, place, naming.DELTA, options)
    if isinstance(place, naming.Folder):
        namespace, settings = iceberg.namespace_of(place.root)
        root = place.root
        keeps_commits = naming.renames_in_one_step(root)
    else:
        namespace, root = place, ""
        settings = {f"{CATALOGS}{place.catalog}.cache-enabled": "false"}
        keeps_commits = iceberg.commits_itself(spark, place.catalog)
    session = made(spark, settings)
    iceberg.require_catalog(session, namespace.catalog)
    dialect = Named(session, namespace, naming.ICEBERG, options, root, keeps_commits=keeps_commits)
    return session, dialect


def _side_folder(place: Place, dialect: DeltaByPath | Named) -> str:
    """Folder of attempts and columns' types; all landings in one root have the same one."""
    if isinstance(place, naming.Folder):
        return place.root
    folder = dialect.location() if isinstance(dialect, Named) else ""
    if not folder:
        raise ConfigurationError(
            f"The catalog gives no location for the namespace of {dialect.label('...')}, and files "
            "on their way and columns' types have to go somewhere. Give landing_folder, a URL that "
            "every landing in this namespace can write, and always the same."
        )
    return folder
