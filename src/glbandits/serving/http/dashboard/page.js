// The page itself: it asks every two seconds, and says what came back.

const EVERY = 2000, PATIENCE = 10000, COLOURS = 7;
const KEY = "glbandits.key"; // in this tab only, and gone with it
const HERE = location.pathname.replace(/\/dashboard\/?$/, "");
const ROOT = HERE.replace(/\/loops\/[^/]+$/, "");

/** Put a text in its place, if it is another: what is said again would be read out again. */
function say(id, text) {
  if (part(id).textContent !== text) part(id).textContent = text;
}

class Problem extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

/** The JSON at a path, or a Problem in the server's own words. */
async function fetched(address) {
  const headers = { "ocp-apim-subscription-key": sessionStorage.getItem(KEY) ?? "" }; // a proxy may want the other one
  let reply;
  try {
    reply = await fetch(address, { headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  } catch {
    throw new Problem(0, "The server does not answer");
  }
  const body = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Problem(reply.status, body.detail ?? `The server answered with status ${reply.status}`);
  return body;
}

const share = (point) => point.explored / point.decisions;
const estimated = (key) => ({ value: (point) => point[key]?.value ?? null, half: (point) => Z95 * (point[key]?.error ?? 0), text: (point) => estimate(point[key]) });
const delayed = (key) => ({ value: (point) => point.delays?.[key] ?? null, text: (point) => duration(point.delays[key]) });
const charts = {
  rewards: new LineChart("rewards", {
    height: 260,
    label: (points) => `Reward and the baseline's over time, ${points.length} points; the table below has them`,
    series: [
      { name: "Shown", look: "model", ...estimated("reward") },
      { name: "Baseline (estimated)", look: "baseline", dashed: true, ...estimated("baseline") },
    ],
    scale: (low, high) => {
      const margin = 0.08 * (high - low) || 0.5;
      return [low - margin, high + margin];
    },
    ticks: (low, high) => roundNumbers(low, high, 5),
  }),
  actions: new ShareChart("actions", {
    height: 240,
    label: () => "Shares of actions over time; the list has them for the whole time",
    scale: () => [0, 1],
    ticks: () => [0, 0.25, 0.5, 0.75, 1].map((value) => [value, `${100 * value} %`]),
  }),
  exploration: new LineChart("exploration", {
    label: (points) => `Share of exploring decisions over time, ${points.length} points; the table below has them`,
    series: [{ name: "Explored", look: "model", value: share, half: (point) => Z95 * Math.sqrt(share(point) * (1 - share(point)) / point.decisions), text: (point) => percent(share(point)) }],
    scale: (low, high) => [0, Math.min(1, Math.max(0.1, 1.15 * high))],
    ticks: (low, high) => roundNumbers(low, high, 5).map(([value]) => [value, `${Math.round(100 * value)} %`]),
  }),
  delay: new LineChart("delay", {
    label: (points) => `Delay of rewards over time, ${points.length} points; the table below has them`,
    series: [{ name: "Median", look: "model", ...delayed("median") }, { name: "90 % within", look: "baseline", dashed: true, ...delayed("p90") }],
    scale: (low, high) => [Math.max(0.001, low) / 2, Math.max(0.002, high) * 2],
    ticks: roundDurations,
    along: (value) => Math.log(Math.max(0.001, value)),
  }),
};

const STATUSES = ["accepted", "late", "duplicate", "unknown", "out_of_range"];

function tellFacts(figures, status) {
  const { learner } = figures;
  const learned = learner.learnedAt === null ? "not since the start" : moment(Date.parse(learner.learnedAt), true);
  const failing = !learner.running || status.learningFailed !== null;
  const facts = [
    ["Decisions", count(figures.decisions), `${count(figures.learned)} learned`],
    ["No reward in time", percent(figures.missing / figures.learned), `${count(figures.missing)} got the default`],
    ["Exploration", percent(figures.explored / figures.decisions), "not the most likely action"],
    ["Baseline shown", percent(figures.baselineShown / figures.learned), `worth ${decisions(Math.round(figures.baselineWorth))}`],
    ["Reward delay", figures.delays ? duration(figures.delays.median) : "–", figures.delays ? `99 % within ${duration(figures.delays.p99)}` : "none yet"],
    ["Model", status.modelVersion, `${status.policy}, ${status.width} wide${status.sparse ? ", sparse" : ""}`],
    ["Mode", status.mode, `rewards within ${duration(figures.wait)}`],
    ["Last update", learned, failing ? status.learningFailed ?? "the learner does not run" : learner.setAside ? `${learner.setAside} decisions set aside: cannot be learned` : `lag ${duration(learner.lag)}`, failing || learner.lag > 60 || learner.setAside > 0],
    ["Queue", count(status.queue), "events to be written", status.queue > 1000],
    ["Degraded", count(figures.degraded), "answered before safe", figures.degraded > 0.01 * status.counts.decisions.accepted],
  ];
  part("facts").replaceChildren(...facts.map(([name, value, more, alarm]) => element("div", { class: alarm ? "alarm" : null },
    element("dt", {}, name), element("dd", {}, value, element("small", {}, more)))));
}

function tellActions(figures, points) {
  const looks = figures.actions.map((_, index) => (index < COLOURS ? `c${index}` : "rest"));
  for (const point of points) {
    let sum = 0;
    point.ends = [...point.actions.slice(0, COLOURS).map((shown) => (sum += shown) / point.decisions), 1];
  }
  charts.actions.looks = [...looks.slice(0, COLOURS), "rest"];
  charts.actions.show(points, 1000 * figures.width);
  const row = (name, shown, look) => element("li", {}, element("span", { class: "name", title: name }, name),
    bar(shown / figures.decisions, look), element("span", { class: "share" }, percent(shown / figures.decisions)));
  const others = figures.decisions - figures.actions.reduce((sum, action) => sum + action.decisions, 0);
  part("actions").querySelector(".shares").replaceChildren(
    ...figures.actions.map((action, index) => row(action.id, action.decisions, looks[index])), ...(others ? [row("all others", others, "rest")] : []));
}

function tellAll(figures, status) {
  const points = figures.points.map((point) => ({ ...point, at: Date.parse(point.at) }));
  tellAnswer(figures, status);
  tellFacts(figures, status);
  for (const name of ["rewards", "exploration", "delay"]) charts[name].show(points, 1000 * figures.width);
  tellActions(figures, points);
  const rows = ["decisions", "rewards", "activations"].map((kind) => [kind[0].toUpperCase() + kind.slice(1), ...STATUSES.map((name) => count(status.counts[kind][name]))]);
  part("statuses").replaceChildren(table(["", "Accepted", "Late", "Duplicate", "Unknown", "Out of range"], rows));
}

function tellState(state, text) {
  part("live").dataset.state = state;
  say("live-text", text);
}

const events = new EventSearch((path) => fetched(HERE + path));
let timer, looking, begun = false;

function askForKey(problem) {
  begun = false;
  part("board").hidden = true;
  part("key-form").hidden = false;
  say("key-problem", problem);
  tellState("waiting", "needs a key");
  part("key").focus();
}

async function look() {
  clearTimeout(timer);
  const mine = looking = {}; // one that was overtaken, by another window or key, says nothing
  if (sessionStorage.getItem(KEY) === null) return askForKey("");
  const span = document.querySelector("[name=window]:checked").value;
  try {
    const [figures, status] = await Promise.all([fetched(`${HERE}/v1/statistics?window=${span}`), fetched(`${HERE}/v1/status`)]);
    if (mine !== looking) return;
    part("key-form").hidden = part("notice").hidden = true;
    part("board").hidden = false;
    tellAll(figures, status);
    tellState("live", `live, ${moment(Date.parse(figures.at), true)}`);
    if (!begun) {
      begun = true;
      events.search();
      const { loops } = await fetched(`${ROOT}/v1/loops`);
      part("loop").replaceChildren(...loops.map((name) => element("option", { value: name, selected: name === figures.loop }, name)));
    }
  } catch (problem) {
    if (mine !== looking) return;
    if (problem.status === 401 || problem.status === 403) {
      sessionStorage.removeItem(KEY);
      return askForKey(problem.message);
    }
    say("notice", `${problem.message}. What is below is from before; it is asked again.`);
    part("notice").hidden = false;
    tellState("lost", "not live");
  }
  if (mine === looking && !document.hidden) timer = setTimeout(look, EVERY);
}

part("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, part("key").value.trim());
  part("key").value = "";
  look();
});
/** Take the key from an address like /dashboard#key=..., and remove it there. Browsers do not send that part to servers. */
function takeKey() {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (key === null) return;
  sessionStorage.setItem(KEY, key);
  history.replaceState(null, "", location.pathname + location.search);
}

addEventListener("hashchange", () => { takeKey(); look(); });
part("windows").addEventListener("change", look);
part("loop").addEventListener("change", (event) => { location.href = `${ROOT}/loops/${encodeURIComponent(event.target.value)}/dashboard`; });
document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
takeKey();
look();
