"""Check a way of submitting, from the operator's arguments and its Spark connection. No I/O.

Spark or Airflow would refuse the same, but later: after events were delivered and staged, or in a
driver's log on another machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

CLUSTER = "cluster"
MASTER_PORT = 7077

JARS_MISSING = "Spark could not fetch "
"""Beginning of the sentence on jars that could not be fetched."""

_DEPLOY_MODE = "spark.submit.deployMode"
_EXECUTORS_PYTHON = "spark.pyspark.python"
_DRIVERS_PYTHON = "spark.pyspark.driver.python"
_SECRET = re.compile("secret|password|token", re.IGNORECASE)
# As Ivy ends spark-submit: `[download failed: org.slf4j#slf4j-api;2.0.7!slf4j-api.jar, ...]`.
_UNRESOLVED = re.compile(
    r"RuntimeException: \[((?:unresolved dependency|download failed): .*)\]\s*$", re.MULTILINE
)
_ARTIFACT = re.compile(r"([\w.-]+)#([\w.-]+);([\w.-]+)")
_ADDRESS = re.compile(r"(?P<host>\[[^\]]+\]|[^:,/\s]+):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way of submitting a job.

    :param master: Spark's master URL.
    :param deploy_mode: `client`, `cluster`, or None for Spark's default.
    :param application: the user's own, or empty for the job of this package.
    :param env_vars: the user's variables for the job; only their names are read.
    :param properties_file: file of Spark's settings that the task names; empty if there is none.
    :param durable: Airflow keeps the job's id, so that a retry continues to wait for it.
    :param yarn_track_via_rm_api: Airflow asks YARN's ResourceManager for the job's state.
    """

    master: str
    deploy_mode: str | None = None
    application: str = ""
    env_vars: Mapping[str, object] = field(default_factory=dict)
    properties_file: str | None = None
    durable: bool = True
    yarn_track_via_rm_api: bool = False

    @property
    def is_standalone(self) -> bool:
        return self.master.startswith("spark://")

    @property
    def is_yarn(self) -> bool:
        return "yarn" in self.master  # as Airflow's hook tells

    def check(self) -> None:
        """Check that this way works.

        :raises ConfigurationError: it does not; the message names the remedy.
        """
        if self.is_standalone:
            master_addresses(self.master)
        if self.deploy_mode != CLUSTER:
            return
        if self.is_standalone:
            self._check_standalone()
        if self.is_yarn and self.durable and not self.yarn_track_via_rm_api:
            raise ConfigurationError(
                "On YARN in cluster mode a retry can continue to wait for a job (durable=True, the "
                "default) only if Airflow can ask the ResourceManager: give "
                "yarn_track_via_rm_api=True, and the Spark connection the extra "
                '{"yarn_resourcemanager_webapp_address": "http://<host>:8088"}. Or give '
                "durable=False: a retry then submits the job anew, which is safe."
            )

    def _check_standalone(self) -> None:
        if not self.application or self.application.endswith(".py"):
            raise ConfigurationError(
                f"deploy_mode is 'cluster' and Spark runs at {self.master}: a standalone cluster "
                "runs no Python drivers. Give deploy_mode='client' (in the Spark connection: the "
                "extra deploy-mode): the driver then runs beside the task, and the executors run "
                "on the cluster."
            )
        if self.env_vars:
            raise ConfigurationError(
                f"env_vars ({', '.join(sorted(self.env_vars))}) reach no driver on a standalone "
                "cluster in cluster mode. Leave them out, and set them where the workers are "
                "started; or give deploy_mode='client'."
            )

    def exposed(self) -> tuple[str, ...]:
        """Names of `env_vars` that look like secrets, and that other users could read.

        On YARN and Kubernetes they are on spark-submit's command line.
        """
        if not (self.is_yarn or self.master.startswith("k8s://")):
            return ()
        return tuple(sorted(name for name in self.env_vars if _SECRET.search(name)))


def deploy_mode(connection: str | None, conf: Mapping[str, object]) -> str | None:
    """Return the deploy mode of the operator or its connection, otherwise that of `conf`."""
    given = connection or conf.get(_DEPLOY_MODE)
    return str(given) if given else None


def master_addresses(master: str) -> tuple[tuple[str, int], ...]:
    """Hosts and ports of `spark://a:7077,b:7077`.

    :raises ConfigurationError: it has another form.
    """
    named = master.removeprefix("spark://").split(",")
    found = [_ADDRESS.fullmatch(one.strip()) for one in named]
    addresses = [(one["host"].strip("[]"), int(one["port"])) for one in found if one]
    if len(addresses) < len(named):
        raise ConfigurationError(
            f"{master} is not the address of a Spark master. Give the Spark connection the host "
            f"spark://<host> and a port, usually {MASTER_PORT}; several masters as "
            f"spark://<host>:{MASTER_PORT},<host>:{MASTER_PORT}."
        )
    return tuple(addresses)


def drivers_python(conf: Mapping[str, object], python: str) -> dict[str, str]:
    """Settings for the driver's Python if `conf` names one for the executors only.

    Otherwise Spark would use that one for the driver, too.

    :param python: the driver's; empty if Spark chooses it.
    """
    if not python or _EXECUTORS_PYTHON not in conf or _DRIVERS_PYTHON in conf:
        return {}
    return {_DRIVERS_PYTHON: python}


def unresolved_jars(output: str) -> str:
    """Name the jars that Spark could not fetch, and the remedy; empty for another failure.

    :param output: last lines of spark-submit's output.
    """
    ended = _UNRESOLVED.search(output)
    if ended is None:
        return ""
    jars = dict.fromkeys(":".join(one) for one in _ARTIFACT.findall(ended[1]))
    return (
        f"{JARS_MISSING}{', '.join(jars)}, which `packages` asks for. Check the coordinates, and "
        "that this machine reaches Maven Central or a repository named by `repositories`; or give "
        "the files themselves as `jars`, without `packages`. If the repository is reached, a "
        "damaged copy may be in the way, such as one with a pom and no jar, which Maven leaves: "
        "remove these artifacts from ~/.m2/repository and from this user's folder ~/.ivy2.*. The "
        "log above shows Spark's attempts."
    )
