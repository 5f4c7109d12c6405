// The page: it requests the statistics every two seconds and shows them.

const INTERVAL = 2000, TIMEOUT = 10000, COLOURS = 7;
const KEY = "glbandits.key"; // in the session storage of this tab
const HERE = location.pathname.replace(/\/dashboard\/?$/, "");
const ROOT = HERE.replace(/\/loops\/[^/]+$/, "");

/** Set the text of an element if it differs. Setting the same text would make screen readers repeat it. */
function setText(id, text) {
  if (byId(id).textContent !== text) byId(id).textContent = text;
}

const problemOf = (status, message) => Object.assign(new Error(message), { status });

/** Return the JSON at an address. Throws an error with the status and the message of the server. */
async function fetchJson(address) {
  const headers = { "ocp-apim-subscription-key": sessionStorage.getItem(KEY) ?? "" }; // a proxy may use the header Authorization
  let reply;
  try {
    reply = await fetch(address, { headers, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT) });
  } catch {
    throw problemOf(0, "The server does not respond");
  }
  const body = await reply.json().catch(() => ({}));
  if (!reply.ok) throw problemOf(reply.status, body.detail ?? `The server responded with status ${reply.status}`);
  return body;
}

const fetchLoop = (path) => fetchJson(HERE + path);
const share = (point) => point.explored / point.decisions;
const around = (value, error) => [value - Z95 * error, value + Z95 * error];
const estimated = (key) => ({ value: (point) => point[key]?.value ?? null, band: (point) => around(point[key].value, point[key].error), text: (point) => estimate(point[key]) });
const delayed = (key) => ({ value: (point) => point.delays?.[key] ?? null, text: (point) => duration(point.delays[key]) });
const charts = {
  rewards: new LineChart(byId("rewards"), {
    height: 260,
    label: (points) => `Rewards of shown actions and of the baseline over time, ${points.length} points, also in the table below`,
    series: [
      { name: "Shown", style: "model", ...estimated("reward") },
      { name: "Baseline (estimated)", style: "baseline", dashed: true, ...estimated("baseline") },
    ],
    scale: spread,
    ticks: (low, high) => roundNumbers(low, high, 5),
  }),
  actions: new ShareChart(byId("actions"), {
    height: 240,
    label: () => "Shares of actions over time; the list has the shares of the whole window",
    scale: () => [0, 1],
    ticks: () => [0, 0.25, 0.5, 0.75, 1].map((value) => [value, `${100 * value} %`]),
  }),
  exploration: new LineChart(byId("exploration"), {
    label: (points) => `Share of exploring decisions over time, ${points.length} points, also in the table below`,
    series: [{ name: "Explored", style: "model", value: share, band: (point) => around(share(point), Math.sqrt(share(point) * (1 - share(point)) / point.decisions)), text: (point) => percent(share(point)) }],
    scale: (low, high) => [0, Math.min(1, Math.max(0.1, 1.15 * high))],
    ticks: (low, high) => roundNumbers(low, high, 5).map(([value]) => [value, `${Math.round(100 * value)} %`]),
  }),
  delay: new LineChart(byId("delay"), {
    label: (points) => `Delay of rewards over time, ${points.length} points, also in the table below`,
    series: [{ name: "Median", style: "model", ...delayed("median") }, { name: "90 % within", style: "baseline", dashed: true, ...delayed("p90") }],
    scale: (low, high) => [Math.max(0.001, low) / 2, Math.max(0.002, high) * 2],
    ticks: roundDurations,
    along: (value) => Math.log(Math.max(0.001, value)),
  }),
};

const STATUSES = ["accepted", "late", "duplicate", "unknown", "out_of_range"];

function renderFacts(statistics, status) {
  const { learner } = statistics;
  const learned = learner.learnedAt === null ? "none since the start" : timeText(Date.parse(learner.learnedAt), true);
  const failing = !learner.running || status.learningFailed !== null;
  const facts = [
    ["Decisions", count(statistics.decisions), `${count(statistics.learned)} learned`],
    ["No reward in time", percent(statistics.missing / statistics.learned), `${count(statistics.missing)} got the default reward`],
    ["Exploration", percent(statistics.explored / statistics.decisions), "not the most likely action"],
    ["Baseline shown", percent(statistics.baselineShown / statistics.compared), `effective sample size ${count(Math.round(statistics.baselineWorth))}`],
    ["Reward delay", statistics.delays ? duration(statistics.delays.median) : "–", statistics.delays ? `99 % within ${duration(statistics.delays.p99)}` : "no reward yet"],
    ["Model", status.modelVersion, `${status.policy}, width ${status.width}${status.sparse ? ", sparse" : ""}`],
    ["Mode", status.mode, `reward window ${duration(statistics.wait)}`],
    ["Last update", learned, failing ? status.learningFailed ?? "the learner is not running" : learner.setAside ? `${learner.setAside} decisions cannot be learned` : `lag ${duration(learner.lag)}`, failing || learner.lag > 60 || learner.setAside > 0],
    ...(learner.outlyingRewards || learner.outlyingValues ? [["Outliers limited", `${count(learner.outlyingRewards)} / ${count(learner.outlyingValues)}`, "rewards / feature values far outside everything seen", true]] : []),
    ["Queue", count(status.queue), "events in the write queue", status.queue > 1000],
    ["Degraded", count(statistics.degraded), "returned before durable", statistics.degraded > 0.01 * status.counts.decisions.accepted],
  ];
  byId("facts").replaceChildren(...facts.map(([name, value, more, alarm]) => element("div", { class: alarm ? "alarm" : null },
    element("dt", {}, name), element("dd", {}, value, element("small", {}, more)))));
}

function renderActions(statistics, points) {
  const styles = statistics.actions.map((_, index) => (index < COLOURS ? `c${index}` : "rest"));
  for (const point of points) {
    let sum = 0;
    point.ends = [...point.actions.slice(0, COLOURS).map((shown) => (sum += shown) / point.decisions), 1];
  }
  charts.actions.styles = [...styles.slice(0, COLOURS), "rest"];
  charts.actions.show(points, 1000 * statistics.width);
  const row = (name, shown, style) => element("li", {}, element("span", { class: "name", title: name }, name),
    bar(shown / statistics.decisions, style), element("span", { class: "share" }, percent(shown / statistics.decisions)));
  const others = statistics.decisions - statistics.actions.reduce((sum, action) => sum + action.decisions, 0);
  byId("actions").querySelector(".shares").replaceChildren(
    ...statistics.actions.map((action, index) => row(action.id, action.decisions, styles[index])), ...(others ? [row("all others", others, "rest")] : []));
}

function renderAll(statistics, status, guardrails) {
  const points = statistics.points.map((point) => ({ ...point, at: Date.parse(point.at) }));
  renderAnswer(statistics, status, guardrails);
  renderGuardrails(guardrails);
  renderFacts(statistics, status);
  for (const name of ["rewards", "exploration", "delay"]) charts[name].show(points, 1000 * statistics.width);
  renderActions(statistics, points);
  const rows = ["decisions", "rewards", "metrics", "activations"].map((kind) => [capital(kind), ...STATUSES.map((name) => count(status.counts[kind][name]))]);
  byId("statuses").replaceChildren(table(["", "Accepted", "Late", "Duplicate", "Unknown", "Out of range"], rows));
}

/** Show the state of the connection: live, waiting or lost. */
function showConnection(state, text) {
  byId("live").dataset.state = state;
  setText("live-text", text);
}

let timer, latestRefresh, loaded = false;

function askForKey(problem) {
  loaded = false;
  byId("board").hidden = true;
  byId("key-form").hidden = false;
  setText("key-problem", problem);
  showConnection("waiting", "needs a key");
  byId("key").focus();
}

async function refresh() {
  clearTimeout(timer);
  const current = latestRefresh = {}; // a response is dropped if a newer refresh has started
  if (sessionStorage.getItem(KEY) === null) return askForKey("");
  const range = document.querySelector("[name=window]:checked").value;
  try {
    const paths = [`/v1/statistics?window=${range}`, "/v1/status", "/v1/guardrails"];
    const [statistics, status, guardrails] = await Promise.all(paths.map(fetchLoop));
    if (current !== latestRefresh) return;
    byId("key-form").hidden = byId("notice").hidden = true;
    byId("board").hidden = false;
    renderAll(statistics, status, guardrails);
    showConnection("live", `live, ${timeText(Date.parse(statistics.at), true)}`);
    if (!loaded) {
      loaded = true;
      searchEvents();
      const { loops } = await fetchJson(`${ROOT}/v1/loops`);
      byId("loop").replaceChildren(...loops.map((name) => element("option", { value: name, selected: name === statistics.loop }, name)));
    }
  } catch (problem) {
    if (current !== latestRefresh) return;
    if (problem.status === 401 || problem.status === 403) {
      sessionStorage.removeItem(KEY);
      return askForKey(problem.message);
    }
    setText("notice", `${problem.message}. The data below is old. Retrying.`);
    byId("notice").hidden = false;
    showConnection("lost", "no connection");
  }
  if (current === latestRefresh && !document.hidden) timer = setTimeout(refresh, INTERVAL);
}

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, byId("key").value.trim());
  byId("key").value = "";
  refresh();
});
/** Move the key from an address like /dashboard#key=... to the session storage. Browsers do not send that part. */
function takeKey() {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (key === null) return;
  sessionStorage.setItem(KEY, key);
  history.replaceState(null, "", location.pathname + location.search);
}

addEventListener("hashchange", () => { takeKey(); refresh(); });
byId("windows").addEventListener("change", refresh);
byId("loop").addEventListener("change", (event) => { location.href = `${ROOT}/loops/${encodeURIComponent(event.target.value)}/dashboard`; });
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
takeKey();
refresh();
