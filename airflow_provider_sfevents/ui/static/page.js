/* The page "Salesforce events", with the React, router and Chakra UI that Airflow's own pages use.
 *
 * Airflow 3.3 puts these into globals before it imports this module, and takes the component from
 * `globalThis.AirflowPlugin`. So there is no build step, and nothing is loaded from elsewhere.
 * Colours are Chakra's semantic ones, which follow Airflow's light and dark mode.
 * Addresses are relative to `document.baseURI`, which is Airflow's `base_url`.
 */
const { createElement: h, Fragment, useEffect, useState } = globalThis.React;
const { Link: RouterLink, useLocation } = globalThis.ReactRouterDOM;
const { Alert, Badge, Box, Button, Code, Flex, Heading, Input, Link, Spinner, Table, Text } =
  globalThis.ChakraUI;

const ROUTE = "/plugin/salesforce_events";
const REFRESH_MS = 30000;
const FIRST_ROWS = 50; // so that the first view is quick, whatever the number of positions
const COLOURS = { fresh: "green", amber: "orange", red: "red", none: "gray" };
const RESULTS = { ok: "green", warning: "orange", failed: "red", "not checked": "gray" };
const LEVELS = {
  fresh: "",
  amber: "half of the retention is used",
  red: "two thirds of the retention are used",
  none: "no replay id yet",
};
const STAGES = [
  ["fetch_ms", "fetch", "blue.solid"],
  ["landing_ms", "landing", "purple.solid"],
  ["commit_ms", "commit", "teal.solid"],
];

/* Numbers and times in words. */

function span(seconds) {
  if (seconds === null) return "–";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 360000) return `${(seconds / 3600).toFixed(1)} h`;
  return `${(seconds / 86400).toFixed(1)} days`;
}

/* In the time zone that the user chose in Airflow's menu, which Airflow keeps as JSON. */

function moment(at) {
  if (!at) return "–";
  const zone = JSON.parse(localStorage.getItem("timezone") || "null") || undefined;
  return new Date(at).toLocaleString(undefined, { timeZone: zone });
}

function count(number) {
  return number.toLocaleString();
}

function counted(number, noun, ending = "s") {
  return `${count(number)} ${noun}${number === 1 ? "" : ending}`;
}

/* Links by Airflow's router, so that they work below any base_url. */

function InnerLink({ to, children }) {
  return h(Link, { asChild: true, color: "fg.info" }, h(RouterLink, { to }, children));
}

function positionPath({ org_id, consumer, topic, store }) {
  return `${ROUTE}?${new URLSearchParams({ org_id, consumer, topic, store })}`;
}

function runPath(dag, run) {
  return `/dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(run)}`;
}

function taskPath({ dag, run, task, map_index }) {
  const mapped = map_index < 0 ? "" : `/mapped/${map_index}`;
  return `${runPath(dag, run)}/tasks/${encodeURIComponent(task)}${mapped}`;
}

/* FastAPI lists what it cannot read in a request; other errors are a sentence. */

function sentence(detail) {
  if (!Array.isArray(detail)) return detail;
  return detail.map(({ loc, msg }) => `${loc.join(".")}: ${msg}`).join("; ");
}

async function request(path, options) {
  const response = await fetch(new URL(`sfevents/api/${path}`, document.baseURI), options);
  const body = await response.json();
  if (!response.ok) throw new Error(sentence(body.detail) || `HTTP ${response.status}`);
  return body;
}

/* Reads the API, at once and then every half minute; `answer` stays while a reload fails. */

function useApi(path) {
  const [found, setFound] = useState({ path, answer: null, error: "" });
  useEffect(() => {
    const stop = new AbortController();
    const load = async () => {
      try {
        const body = await request(path, { signal: stop.signal });
        setFound({ path, answer: body, error: "" });
      } catch (error) {
        if (stop.signal.aborted) return;
        setFound((before) => ({
          path,
          answer: before.path === path ? before.answer : null,
          error: String(error.message || error),
        }));
      }
    };
    load();
    const timer = setInterval(load, REFRESH_MS);
    return () => {
      clearInterval(timer);
      stop.abort();
    };
  }, [path]);
  return found.path === path ? found : { answer: null, error: "" };
}

function Loaded({ answer, error, children }) {
  return h(
    Fragment,
    null,
    error &&
      h(
        Alert.Root,
        { status: "error", my: 3 },
        h(Alert.Indicator),
        h(Alert.Title, null, `Could not be loaded: ${error}`),
      ),
    answer ? children(answer) : !error && h(Spinner, { "aria-label": "Loading" }),
  );
}

function post(path, asked) {
  return request(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(asked),
  });
}

/* Changes something, and returns the sentence of the answer. */

async function change(path, row, more) {
  const { said } = await post(path, {
    org_id: row.org_id,
    consumer: row.consumer,
    topic: row.topic,
    store: row.store,
    expected_epoch: row.epoch,
    expected_batch_number: row.batch_number,
    ...more,
  });
  return said;
}

/* Takes the focus when it is first shown: what the keyboard was on is gone by then. */

function takeFocus(element) {
  element?.focus();
}

/* A button that says what will happen, asks once, and shows the answer. */

function Action({ label, says, act }) {
  const [stage, setStage] = useState({ name: "ready", words: "", left: false });
  const leave = () => setStage({ name: "ready", words: "", left: true });
  const run = async () => {
    setStage({ name: "busy", words: "" });
    try {
      setStage({ name: "done", words: await act() });
    } catch (error) {
      setStage({ name: "failed", words: String(error.message || error) });
    }
  };
  if (stage.name === "done" || stage.name === "failed")
    return h(
      Alert.Root,
      {
        ref: takeFocus,
        role: "status",
        status: stage.name === "done" ? "success" : "error",
        tabIndex: -1,
      },
      h(Alert.Indicator),
      h(Alert.Title, null, stage.words),
    );
  if (stage.name === "ready")
    return h(
      Button,
      {
        onClick: () => setStage({ name: "asked", words: "" }),
        ref: stage.left ? takeFocus : null,
        size: "xs",
        variant: "outline",
      },
      label,
    );
  return h(
    Box,
    {
      "aria-label": label,
      borderWidth: 1,
      maxW: "40rem",
      onKeyDown: (event) => event.key === "Escape" && stage.name === "asked" && leave(),
      p: 3,
      ref: takeFocus,
      role: "group",
      tabIndex: -1,
    },
    h(Text, { fontWeight: "bold" }, label),
    says.map((sentence) => h(Text, { key: sentence }, sentence)),
    h(
      Flex,
      { gap: 2, mt: 2 },
      h(
        Button,
        { colorPalette: "red", disabled: stage.name === "busy", onClick: run, size: "xs" },
        "Yes, do it",
      ),
      h(
        Button,
        {
          disabled: stage.name === "busy",
          onClick: leave,
          size: "xs",
          variant: "outline",
        },
        "Leave it",
      ),
    ),
  );
}

/* Plots. Each says in words what it shows. */

function AgeBar({ row }) {
  if (row.age_seconds === null) return h(Text, { color: "fg.muted" }, LEVELS.none);
  const share = Math.min(1, row.age_seconds / row.retention_seconds);
  const words = `${span(row.age_seconds)} of ${span(row.retention_seconds)}`;
  const why = LEVELS[row.level];
  return h(
    Box,
    { minW: "10rem", "data-level": row.level },
    h(
      Box,
      {
        role: "meter",
        "aria-label": "Age of the position",
        "aria-valuemin": 0,
        "aria-valuemax": 100,
        "aria-valuenow": Math.round(share * 100),
        "aria-valuetext": why ? `${words}: ${why}` : words,
        bg: "bg.emphasized",
        borderRadius: "sm",
        h: "0.5rem",
        overflow: "hidden",
      },
      h(Box, { bg: `${COLOURS[row.level]}.solid`, h: "100%", w: `${share * 100}%` }),
    ),
    h(Text, { fontSize: "xs" }, words),
    why && h(Text, { color: `${COLOURS[row.level]}.fg`, fontSize: "xs" }, why),
  );
}

function Sparkline({ events }) {
  const most = Math.max(1, ...events);
  const total = events.reduce((sofar, one) => sofar + one, 0);
  const bars = events
    .map((one, hour) => one && `M${hour} 24V${(24 - 23 * (one / most)).toFixed(1)}`)
    .filter(Boolean)
    .join("");
  const words = `${count(total)} events in 7 days, at most ${count(Math.max(...events))} in an hour`;
  return h(
    Box,
    { color: "blue.fg", minW: "168px", title: words },
    h(
      "svg",
      { "aria-label": words, height: 24, role: "img", viewBox: "0 0 168 24", width: 168 },
      h("path", { d: `M0 23.5H168${bars}`, stroke: "currentColor", strokeWidth: 1 }),
    ),
  );
}

function Durations({ batch, most }) {
  const words = STAGES.map(([field, name]) => `${name} ${span(batch[field] / 1000)}`).join(", ");
  return h(
    Box,
    null,
    h(
      Flex,
      { "aria-hidden": true, h: "0.5rem", w: "12rem" },
      STAGES.map(([field, name, colour]) =>
        h(Box, { bg: colour, key: name, w: `${(100 * batch[field]) / most}%` }),
      ),
    ),
    h(Text, { fontSize: "xs" }, words),
  );
}

/* Tables. */

function Columns({ names }) {
  return h(
    Table.Header,
    null,
    h(
      Table.Row,
      null,
      names.map((name) => h(Table.ColumnHeader, { key: name, scope: "col" }, name)),
    ),
  );
}

function Cells({ of }) {
  return of.map((cell, number) => h(Table.Cell, { key: number, verticalAlign: "top" }, cell));
}

function Notes({ row }) {
  const extra = Object.entries(row.extra_deliveries)
    .map(([cause, events]) => `${cause} ${count(events)}`)
    .join(", ");
  const notes = [
    row.loss_windows && ["red", counted(row.loss_windows, "loss window")],
    row.quarantined && ["orange", `${count(row.quarantined)} in quarantine`],
    extra && ["gray", `extra deliveries: ${extra}`],
  ].filter(Boolean);
  return h(
    Flex,
    { direction: "column", gap: 1 },
    notes.map(([colour, words]) =>
      h(Badge, { colorPalette: colour, key: words, w: "fit-content" }, words),
    ),
  );
}

/* The first trouble of a position, which is the cause of the others, as a link to what mends it. */

function FirstTrouble({ row }) {
  const [first, ...others] = row.troubles;
  if (!first) return null;
  const more = others.length > 0 ? ` And ${others.length} more.` : "";
  return h(
    Box,
    { color: "red.fg", maxW: "24rem", whiteSpace: "normal" },
    h(InnerLink, { to: positionPath(row) }, `${first.cause}${more}`),
  );
}

function Troubles({ row }) {
  return row.troubles.map(({ cause, remedy, command }) =>
    h(
      Alert.Root,
      { "data-trouble": true, key: cause, mb: 3, status: "warning" },
      h(Alert.Indicator),
      h(
        Alert.Content,
        null,
        h(Alert.Title, null, cause),
        h(Alert.Description, null, remedy, command && " ", command && h(Code, null, command)),
      ),
    ),
  );
}

function State({ row }) {
  const { running, failed, failed_run, failed_task, map_index } = row.tasks;
  const log = { dag: row.dag, run: failed_run, task: failed_task, map_index };
  return h(
    Fragment,
    null,
    row.last_batch
      ? h(
          Text,
          null,
          `Batch ${row.last_batch.batch_number}: ${count(row.last_batch.events)} events, `,
          `${moment(row.last_batch.at)}`,
        )
      : h(Text, { color: "fg.muted" }, "No batch has landed yet."),
    failed > 0 &&
      h(
        Text,
        { color: "red.fg" },
        h(InnerLink, { to: taskPath(log) }, `failed ${counted(failed, "time")} since`),
      ),
    running && h(InnerLink, { to: runPath(row.dag, running) }, "running now"),
  );
}

const OVERVIEW = ["Consumer", "Topic", "Age", "Lag", "Events per hour", "Last batch", "Notes"];

function PositionRow({ row }) {
  return h(
    Table.Row,
    { "data-consumer": row.consumer },
    h(Cells, {
      of: [
        h(InnerLink, { to: positionPath(row) }, row.consumer),
        row.topic,
        h(AgeBar, { row }),
        span(row.lag_seconds),
        h(Sparkline, { events: row.events_by_hour }),
        h(State, { row }),
        h(Fragment, null, h(FirstTrouble, { row }), h(Notes, { row })),
      ],
    }),
  );
}

/* The oldest position comes first, because it is the next one to lose events. */

function Positions({ positions }) {
  const [wanted, setWanted] = useState("");
  const [limit, setLimit] = useState(FIRST_ROWS);
  const found = positions
    .filter((row) => `${row.consumer} ${row.topic}`.toLowerCase().includes(wanted.toLowerCase()))
    .sort((one, other) => (other.age_seconds ?? -1) - (one.age_seconds ?? -1));
  return h(
    Fragment,
    null,
    h(Input, {
      "aria-label": "Filter by consumer or topic",
      maxW: "20rem",
      mb: 2,
      onChange: (event) => setWanted(event.target.value),
      placeholder: "Filter by consumer or topic",
      value: wanted,
    }),
    h(
      Table.Root,
      { "aria-label": "Positions", size: "sm" },
      h(Columns, { names: OVERVIEW }),
      h(
        Table.Body,
        null,
        found.slice(0, limit).map((row) => h(PositionRow, { key: positionPath(row), row })),
      ),
    ),
    found.length > limit &&
      h(
        Button,
        { mt: 3, onClick: () => setLimit(found.length), size: "sm", variant: "outline" },
        `Show all ${count(found.length)}`,
      ),
  );
}

/* The error that keeps a watcher from listening, or the last one that did. */

function WatchError({ message, at, ended_at }) {
  const when = ended_at
    ? `It listens again since ${moment(ended_at)}. Before, since ${moment(at)}:`
    : `Since ${moment(at)}:`;
  return h(
    Box,
    { color: ended_at ? "fg.muted" : "red.fg", maxW: "32rem", whiteSpace: "normal" },
    `${when} ${message}`,
  );
}

function Watchers({ watchers }) {
  return h(
    Box,
    { as: "section", "aria-labelledby": "sfevents-watchers", mt: 6 },
    h(Heading, { as: "h2", id: "sfevents-watchers", size: "md" }, "Watchers"),
    h(
      Table.Root,
      { "aria-labelledby": "sfevents-watchers", size: "sm" },
      h(Columns, { names: ["Asset", "Watcher", "Since", "Triggerer", "Last error"] }),
      h(
        Table.Body,
        null,
        watchers.map(({ asset, watcher, since, triggerer, alive, error }) =>
          h(
            Table.Row,
            { "data-watcher": watcher, key: `${asset} ${watcher}` },
            h(Cells, {
              of: [
                asset,
                watcher,
                moment(since),
                alive
                  ? `listening, on ${triggerer}`
                  : h(Text, { color: "red.fg" }, "on no living triggerer"),
                error && h(WatchError, error),
              ],
            }),
          ),
        ),
      ),
    ),
  );
}

/* Allowances as tasks last saw them: nothing is asked for this. */

function Allowances({ allowances }) {
  return h(
    Box,
    { as: "section", "aria-labelledby": "sfevents-allowances", mt: 6 },
    h(Heading, { as: "h2", id: "sfevents-allowances", size: "md" }, "Allowance of deliveries"),
    allowances.map(({ org_id, at, status, says }) =>
      h(
        Text,
        { "data-allowance": org_id, key: org_id },
        h(Badge, { colorPalette: RESULTS[status] }, status),
        ` Org ${org_id}, as a task saw it at ${moment(at)}: ${says}`,
      ),
    ),
  );
}

/* Asks an org by a connection: the checks of the doctor that need no worker. */

function Findings({ findings, not_checked }) {
  const [{ where }] = findings;
  return h(
    Box,
    { "data-findings": true, mt: 3, ref: takeFocus, tabIndex: -1 },
    h(
      Table.Root,
      { "aria-label": "Checks of the org", size: "sm" },
      h(Columns, { names: ["Check", "Result", "Seen", "What to do"] }),
      h(
        Table.Body,
        null,
        findings.map((one) =>
          h(
            Table.Row,
            { key: `${one.checked} ${one.seen}` },
            h(Cells, {
              of: [
                one.checked,
                h(Badge, { colorPalette: RESULTS[one.status] }, one.status),
                one.seen,
                one.remedy,
              ],
            }),
          ),
        ),
      ),
    ),
    h(
      Text,
      { color: "fg.muted", fontSize: "sm", mt: 1 },
      `Checked on ${where}; topics of positions that you may not see are left out. Not checked `,
      `here, but by airflow sfevents doctor and SfEventsDoctorOperator: ${not_checked.join(", ")}.`,
    ),
  );
}

function Org({ connections }) {
  const [connId, setConnId] = useState(connections[0]);
  const [asked, setAsked] = useState({ busy: false });
  const ask = async (event) => {
    event.preventDefault();
    setAsked({ busy: true });
    try {
      setAsked({ busy: false, answer: await post("org/check", { conn_id: connId.trim() }) });
    } catch (error) {
      setAsked({ busy: false, error: String(error.message || error) });
    }
  };
  return h(
    Box,
    { as: "section", "aria-labelledby": "sfevents-org", mt: 6 },
    h(Heading, { as: "h2", id: "sfevents-org", size: "md" }, "Org"),
    h(
      Text,
      null,
      "Login, allowance of deliveries and when it is used up, topics without a position, and the ",
      "permissions on topics. It takes ten seconds at most and some API requests, no delivery.",
    ),
    h(
      Flex,
      { as: "form", gap: 2, mt: 2, onSubmit: ask },
      h(Input, {
        "aria-label": "Connection",
        list: "sfevents-connections",
        maxW: "20rem",
        onChange: (event) => setConnId(event.target.value),
        required: true,
        value: connId,
      }),
      h(
        "datalist",
        { id: "sfevents-connections" },
        connections.map((one) => h("option", { key: one, value: one })),
      ),
      h(Button, { disabled: asked.busy, type: "submit", variant: "outline" }, "Ask the org"),
      asked.busy && h(Spinner, { "aria-label": "Asking" }),
    ),
    asked.error &&
      h(
        Alert.Root,
        { mt: 3, role: "status", status: "error" },
        h(Alert.Indicator),
        h(Alert.Title, null, asked.error),
      ),
    asked.answer && h(Findings, asked.answer),
  );
}

function Overview() {
  const api = useApi("positions");
  return h(
    Fragment,
    null,
    h(Heading, { as: "h1", mb: 3, size: "xl" }, "Salesforce events"),
    h(Loaded, api, ({ positions, problems, waits, watchers, allowances, connections }) =>
      h(
        Fragment,
        null,
        waits.silent > 0 &&
          h(
            Alert.Root,
            { mb: 3, status: "warning" },
            h(Alert.Indicator),
            h(
              Alert.Title,
              null,
              `${waits.silent} of ${waits.silent + waits.alive} watchers and deferred sensors are on `,
              "no living triggerer: they start no runs and do not wake up. Start a triggerer: ",
              h(Code, null, "airflow triggerer"),
            ),
          ),
        positions.length > 0
          ? h(Positions, { positions })
          : h(Text, null, "There is no position that you may see. The first run of a DAG makes one."),
        problems.map(({ kept_in, problem }) =>
          h(
            Alert.Root,
            { key: kept_in, mt: 3, status: "warning" },
            h(Alert.Indicator),
            h(Alert.Title, null, problem),
          ),
        ),
        watchers.length > 0 && h(Watchers, { watchers }),
        allowances.length > 0 && h(Allowances, { allowances }),
        connections.length > 0 && h(Org, { connections }),
      ),
    ),
  );
}

const BATCHES = ["Batch", "Landed", "Events", "Quarantined", "Duplicates", "Durations", "Task", "Action"];

/* Brings what the address names into view, as soon as it is there. */

function show(element) {
  element?.scrollIntoView({ block: "center" });
}

function took(batch) {
  return STAGES.reduce((sofar, [field]) => sofar + batch[field], 0);
}

/* An entry of the history is a batch, or the beginning of an epoch. */

function entryKey(entry) {
  return entry.batch_id || `beginning of ${entry.epoch}`;
}

function joined(newer, older) {
  const known = new Set(newer.map(entryKey));
  return [...newer, ...older.filter((entry) => !known.has(entryKey(entry)))];
}

/* Whether no batch is missing between the newer ones and the older ones. */

function meets(newer, older) {
  const last = newer.at(-1);
  const first = older.find((entry) => entry.batch_id);
  return !last || !first || last.batch_number <= first.batch_number + 1;
}

/* The position's batches, and the older ones that were asked for; reloads add new ones above.
   After a long pause they do not meet, and the older ones are asked for again. */

function useBatches(row, asked) {
  const fresh = { busy: false, entries: [], epoch: row.epoch, next: row.older, words: "" };
  const [older, setOlder] = useState(fresh);
  useEffect(() => {
    setOlder((before) =>
      before.epoch !== row.epoch ||
      before.entries.length === 0 ||
      !meets(row.batches, before.entries)
        ? { ...fresh, words: before.words }
        : { ...before, entries: joined(row.batches, before.entries) },
    );
  }, [row]);
  const load = async () => {
    if (older.busy) return;
    const shown = joined(row.batches, older.entries);
    setOlder({ ...older, busy: true, entries: shown, words: "" });
    try {
      const place = new URLSearchParams({ ...Object.fromEntries(asked), ...older.next });
      const { entries, next, unseen } = await request(`batches?${place}`);
      const batches = entries.filter((entry) => entry.batch_id).length;
      setOlder((before) => ({
        ...before,
        busy: false,
        entries: joined(before.entries, entries),
        next,
        words: unseen || olderWords(batches, next),
      }));
    } catch (error) {
      setOlder((before) => ({ ...before, busy: false, words: String(error.message || error) }));
    }
  };
  return { ...older, entries: joined(row.batches, older.entries), load };
}

function olderWords(batches, next) {
  const found = `${counted(batches, "older batch", "es")} loaded.`;
  return next ? found : `${found} The history begins here.`;
}

function Batch({ batch, most, row, run }) {
  return h(
    Table.Row,
    {
      "aria-current": batch.run === run ? "true" : undefined,
      bg: batch.run === run ? "bg.emphasized" : undefined,
      ref: batch.run === run ? show : null,
    },
    h(Cells, {
      of: [
        batch.batch_number,
        moment(batch.at),
        count(batch.events),
        count(batch.quarantined),
        count(batch.duplicates),
        h(Durations, { batch, most }),
        batch.dag &&
          h(
            Fragment,
            null,
            h(InnerLink, { to: runPath(batch.dag, batch.run) }, batch.run),
            h("br"),
            h(InnerLink, { to: taskPath(batch) }, batch.task),
          ),
        row.landings[batch.batch_id] &&
          h(Action, {
            act: () => change("batch/land_again", row, { batch_id: batch.batch_id }),
            label: "Land again",
            says: [row.landings[batch.batch_id]],
          }),
      ],
    }),
  );
}

function EpochBeginning({ epoch, start, at, previous_epoch, previous_batch_number }) {
  const when = at ? ` on ${moment(at)}` : "";
  const after = previous_epoch
    ? `, after batch ${previous_batch_number} of epoch ${previous_epoch}`
    : "";
  return h(
    Table.Row,
    { "data-beginning": epoch },
    h(Table.Cell, { colSpan: BATCHES.length }, `Epoch ${epoch} began at ${start}${when}${after}.`),
  );
}

function Batches({ row, run, asked }) {
  const { entries, next, words, load, busy } = useBatches(row, asked);
  const batches = entries.filter((entry) => entry.batch_id);
  const most = Math.max(1, ...batches.map(took));
  return h(
    Fragment,
    null,
    run &&
      batches.every((batch) => batch.run !== run) &&
      h(
        Text,
        { color: "fg.muted" },
        `Run ${run} is not among them: it is at work, has failed, found no event, or is older.`,
      ),
    h(
      Table.Root,
      { "aria-label": "Batches", size: "sm" },
      h(Columns, { names: BATCHES }),
      h(
        Table.Body,
        null,
        entries.map((entry) =>
          entry.batch_id
            ? h(Batch, { batch: entry, key: entryKey(entry), most, row, run })
            : h(EpochBeginning, { ...entry, key: entryKey(entry) }),
        ),
      ),
    ),
    h(
      Flex,
      { align: "center", gap: 2, mt: 2, wrap: "wrap" },
      next &&
        h(
          Button,
          { "aria-disabled": busy, onClick: load, size: "sm", variant: "outline" },
          "Older batches",
        ),
      busy && h(Spinner, { "aria-label": "Loading" }),
      h(
        Text,
        {
          "data-older": true,
          ref: words && !next ? takeFocus : null,
          role: "status",
          tabIndex: -1,
        },
        words,
      ),
    ),
  );
}

const WHAT_CHANGED = {
  new_table: "new table",
  added: "new column",
  changed: "the field changed its kind: one more column",
  widened: "values go to a wider column",
  absent: "no field any more",
  quarantined: "events of a schema are in quarantine",
};

function Tables({ tables, drift }) {
  return h(
    Fragment,
    null,
    h(
      Heading,
      {
        as: "h2",
        id: "tables",
        mt: 4,
        ref: globalThis.location.hash === "#tables" ? show : null,
        size: "md",
      },
      "Tables",
    ),
    tables.length === 0 && h(Text, { color: "fg.muted" }, "No table has got rows in this epoch."),
    tables.length > 0 &&
      h(
        Table.Root,
        { "aria-label": "Tables", size: "sm", w: "auto" },
        h(Columns, { names: ["Table", "Rows landed"] }),
        h(
          Table.Body,
          null,
          tables.map(({ table, rows }) =>
            h(Table.Row, { key: table }, h(Cells, { of: [table, count(rows)] })),
          ),
        ),
      ),
    drift.length > 0 && h(Heading, { as: "h3", mt: 3, size: "sm" }, "Changes of columns"),
    h(
      Box,
      { as: "ul", pl: 5 },
      drift.map(({ batch_number, event_type, what, column, type }, number) =>
        h(
          "li",
          { key: number },
          `Batch ${batch_number}, ${event_type}: `,
          [WHAT_CHANGED[what] || what, column, type].filter(Boolean).join(" "),
        ),
      ),
    ),
  );
}

function Moved({ moved }) {
  return h(
    Box,
    { as: "ul", pl: 5 },
    moved.map(({ at, user, before, after }) =>
      h(
        "li",
        { key: at },
        `${moment(at)}: ${user} moved it from batch ${before.batch_number} of epoch `,
        `${before.epoch} (replay id ${before.replay_id}) to ${after.replay_id}, epoch ${after.epoch}.`,
      ),
    ),
  );
}

function Losses({ losses }) {
  return h(
    Box,
    { as: "ul", pl: 5 },
    losses.map((loss, number) =>
      h(
        "li",
        { key: number },
        `After replay id ${loss.after || "(none)"}, last event ${moment(loss.after_event_at)}; `,
        `continued at ${loss.start}, recorded ${moment(loss.at)}. ${loss.why}`,
      ),
    ),
  );
}

function Moves({ row }) {
  return h(
    Flex,
    { align: "start", direction: "column", gap: 2, mt: 2 },
    row.moves.map(({ label, start, says }) =>
      h(Action, {
        act: () => change("position/move", row, { start }),
        key: `${row.epoch} ${start}`,
        label,
        says,
      }),
    ),
  );
}

/* A command that the page's server cannot carry out, with the reason. */

function Command({ label, says, command }) {
  const [copied, setCopied] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command);
      setCopied("Copied.");
    } catch {
      setCopied("The browser does not allow it: select the command and copy it.");
    }
  };
  return h(
    Box,
    { "data-command": label, maxW: "60rem" },
    h(Text, { fontWeight: "bold" }, label),
    says.map((sentence) => h(Text, { key: sentence }, sentence)),
    h(
      Flex,
      { align: "center", gap: 2, wrap: "wrap" },
      h(Code, null, command),
      h(
        Button,
        { "aria-label": `Copy: ${label}`, onClick: copy, size: "xs", variant: "outline" },
        "Copy",
      ),
      h(Text, { fontSize: "xs", role: "status" }, copied),
    ),
  );
}

/* The batch after the position, and what mends it; loaded apart, for staging areas may be slow. */

function NextBatch({ row, asked }) {
  const api = useApi(`next_batch?${asked}`);
  return h(
    Box,
    { as: "section", "aria-labelledby": "sfevents-next" },
    h(Heading, { as: "h2", id: "sfevents-next", mt: 4, size: "md" }, "The next batch"),
    h(Loaded, api, ({ unseen, batch_id, state, events, remedies }) =>
      h(
        Fragment,
        null,
        h(Text, null, unseen || `Batch ${batch_id}: ${state}, ${counted(events, "event")}.`),
        h(
          Flex,
          { align: "start", direction: "column", gap: 2, mt: 2 },
          remedies.map(({ name, label, says, path, command }) =>
            path
              ? h(Action, {
                  act: () => change(path, row, { name }),
                  key: `${row.epoch} ${row.batch_number} ${name}`,
                  label,
                  says,
                })
              : h(Command, { command, key: name, label, says }),
          ),
        ),
      ),
    ),
  );
}

function PositionPage({ query }) {
  const run = query.get("run");
  const asked = new URLSearchParams(query);
  asked.delete("run");
  const api = useApi(`position?${asked}`);
  return h(
    Fragment,
    null,
    h(InnerLink, { to: ROUTE }, "Salesforce events"),
    h(Loaded, api, (row) =>
      h(
        Fragment,
        null,
        h(
          Heading,
          { as: "h1", mb: 3, outline: "none", ref: takeFocus, size: "xl", tabIndex: -1 },
          `${row.consumer} on ${row.topic}`,
        ),
        h(
          Flex,
          { gap: 8, mb: 4, wrap: "wrap" },
          h(AgeBar, { row }),
          h(Box, null, h(Text, { color: "fg.muted" }, "Lag"), span(row.lag_seconds)),
          h(Box, null, h(Text, { color: "fg.muted" }, "Events"), count(row.events_total)),
          h(Sparkline, { events: row.events_by_hour }),
          h(Box, null, h(State, { row })),
          h(Notes, { row }),
        ),
        h(Troubles, { row }),
        h(Heading, { as: "h2", size: "md" }, "Batches"),
        h(Batches, { asked, row, run }),
        h(Tables, row),
        row.losses.length > 0 &&
          h(
            Fragment,
            null,
            h(Heading, { as: "h2", mt: 4, size: "md" }, "Loss windows"),
            h(Losses, { losses: row.losses }),
          ),
        h(Heading, { as: "h2", mt: 4, size: "md" }, "Position"),
        h(
          Text,
          null,
          `Batch number ${row.batch_number} of epoch ${row.epoch}, replay id ${row.replay_id}, `,
          `committed ${moment(row.committed_at)}, kept in ${row.kept_in}. What the next run does: `,
          h(Code, null, row.command),
        ),
        h(Moved, row),
        row.setup.startsWith("https:") &&
          h(
            Link,
            { color: "fg.info", href: row.setup, rel: "noreferrer", target: "_blank" },
            "The org's Setup (in a new tab)",
          ),
        row.moves.length > 0 &&
          h(
            Fragment,
            null,
            h(Heading, { as: "h2", mt: 4, size: "md" }, "Move the position"),
            h(Moves, { row }),
          ),
        h(NextBatch, { asked, row }),
      ),
    ),
  );
}

function SalesforceEvents() {
  const { search } = useLocation();
  const query = new URLSearchParams(search);
  return h(
    Box,
    { as: "main", h: "100%", overflow: "auto", p: 4 },
    query.has("consumer")
      ? h(PositionPage, { key: search, query })
      : h(Overview),
  );
}

globalThis.AirflowPlugin = SalesforceEvents;
