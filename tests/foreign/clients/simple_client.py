"""Driver of `simple-salesforce`: orders on stdin, answers on stdout, a line of JSON each."""

from __future__ import annotations

import json
import sys
from typing import Any

from simple_salesforce import Salesforce


class Orders:
    """Orders to the client."""

    client: Any

    def open(self, instance_url: str, session_id: str) -> None:
        self.client = Salesforce(instance_url=instance_url, session_id=session_id)

    def of_object(self, name: str, verb: str, *arguments: Any) -> Any:
        """Call a verb of one object, for example `create`."""
        return getattr(getattr(self.client, name), verb)(*arguments)

    def of_org(self, verb: str, *arguments: Any) -> Any:
        """Call a verb of the org, for example `query`."""
        return getattr(self.client, verb)(*arguments)


def main() -> None:
    orders = Orders()
    for line in sys.stdin:
        given = json.loads(line)
        order = given.pop("order")
        try:
            result = getattr(orders, order)(*given.pop("arguments", ()), **given)
            said = {"said": "done", "order": order, "result": result}
        except Exception as error:  # noqa: BLE001 - told to the test
            why = f"{type(error).__name__}: {error}"
            said = {"said": "refused", "order": order, "why": why}
        sys.stdout.write(f"{json.dumps(said)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
