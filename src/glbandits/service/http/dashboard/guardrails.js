// Treatment against control: the verdict, the state of each guardrail, and the difference of each metric over time.

const GUARDRAIL_STATES = { ok: "no alarm", alarm: "alarm", early: "too early", incomplete: "numbers are missing" };
const metricViews = new Map(); // by name: the elements of a metric, with its chart

const signed = (value, digits) => (value > 0 ? "+" : "") + plain(value, digits);
/** Decimals for the numbers of a metric: two digits of the interval, or of the margin before there is one. */
const metricDigits = ({ low, high, margin }) => decimals(low === null ? margin : (high - low) / 2);
/** The difference beyond which the guardrail acts; null without a guardrail. */
const limitOf = ({ good, margin, action }) => (action === "none" ? null : good === "higher" ? -margin : margin);

const MOST_PROBLEMS = 5;

/** What guardrails and the checks of sizes and missing numbers have found, in words for the headline and in a few lines; null if nothing is wrong. */
function guardrailProblems({ sampleRatio, metrics }) {
  const inState = (wanted) => metrics.filter(({ state }) => state === wanted);
  const alarms = inState("alarm"), incomplete = inState("incomplete"), isWrong = sampleRatio?.alarm ?? false;
  const lines = [...(isWrong ? [sampleRatio.sentence] : []), ...incomplete.map(({ sentence }) => sentence), ...alarms.map(alarmText)], more = lines.length - MOST_PROBLEMS;
  if (!lines.length) return null;
  const words = isWrong ? "the groups have wrong sizes" : !alarms.length ? "numbers are missing" : alarms.length === 1 ? "a guardrail acts" : `${alarms.length} guardrails act`;
  return { words, lines: [...lines.slice(0, MOST_PROBLEMS), ...(more > 0 ? [`and ${more} more`] : [])] };
}

const alarmText = (metric) => `${metric.name}: now ${between(metric.difference, metric.low, metric.high)}, limit ${signed(limitOf(metric), metricDigits(metric))}, alarm since ${dayText(Date.parse(metric.alarmedAt))}`;

/** Show the section if the loop has a control group or was stopped. A stopped loop is also announced at the top of the page. */
function renderGuardrails(guardrails) {
  const { control, state, sentence, sampleRatio, metrics, fallbackSince } = guardrails, isStopped = state === "fallback";
  byId("guardrails").hidden = control === null && !isStopped;
  byId("stopped").hidden = !isStopped;
  setText("stopped-sentence", isStopped ? sentence : "");
  if (byId("guardrails").hidden) return;
  byId("guardrails-sentence").hidden = isStopped;
  setText("guardrails-sentence", sentence);
  byId("guardrails").dataset.state = state;
  setText("guardrails-state", isStopped ? `Stopped by a guardrail since ${dayText(Date.parse(fallbackSince))}` : "Running");
  setText("resume-call", `curl -X POST ${location.origin}${HERE}/v1/guardrails/resume -H "Authorization: Bearer $KEY"`);
  setText("sample-ratio", sampleRatio?.sentence ?? "The loop has no control group any more.");
  byId("sample-ratio").className = sampleRatio?.alarm ? "problem" : "muted";
  const names = metrics.map(({ name }) => name);
  if (names.join("\0") !== [...metricViews.keys()].join("\0")) {
    metricViews.clear();
    for (const name of names) metricViews.set(name, metricView(name));
    byId("metrics").replaceChildren(...[...metricViews.values()].map(({ figure }) => figure));
  }
  for (const metric of metrics) showMetric(metricViews.get(metric.name), metric);
}

/** The elements of a metric. They stay when new numbers come, so that an open table stays open. */
function metricView(name) {
  const view = { badge: element("span", { class: "badge" }), words: element("p", {}), facts: element("dl", { class: "pairs" }), metric: null };
  view.figure = element("figure", {}, element("figcaption", {}, element("h3", {}, clipped(name), view.badge), view.words, view.facts), element("div", { class: "plot" }));
  const mean = (group) => ({ name: capital(group), value: (point) => point[group], text: (point) => plain(point[group], metricDigits(view.metric)) });
  view.chart = new LineChart(view.figure, {
    height: 170,
    counted: "unit",
    label: (points) => `Difference between treatment and control in ${name} over time, ${points.length} points, also in the table below`,
    series: [
      { name: "Difference", style: "model", value: (point) => point.difference, band: ({ low, high }) => [low, high], text: ({ difference, low, high }) => between(difference, low, high) },
      { name: "Limit", style: "bad", dashed: true, value: () => limitOf(view.metric), text: () => signed(limitOf(view.metric), metricDigits(view.metric)) },
      mean("treatment"), mean("control"),
    ],
    scale: (low, high) => spread(Math.min(0, low), Math.max(0, high)),
    ticks: (low, high) => roundNumbers(low, high, 4),
  });
  return view;
}

function showMetric(view, metric) {
  const digits = metricDigits(metric), isCompared = metric.action === "none";
  const group = ({ units, mean, error }) => (units ? `${plain(mean, digits)} ± ${error === null ? "?" : plain(Z95 * error, digits)} (${plural(units, "unit")})` : "no unit yet");
  const since = metric.alarmedAt === null ? "" : ` since ${dayText(Date.parse(metric.alarmedAt))}`;
  view.metric = metric;
  view.badge.textContent = isCompared ? "no guardrail" : GUARDRAIL_STATES[metric.state] + since;
  view.badge.className = `badge ${metric.state === "alarm" ? "bad" : ""}`;
  if (view.words.textContent !== metric.sentence) view.words.textContent = metric.sentence;
  const facts = {
    Treatment: group(metric.treatment), Control: group(metric.control), Good: metric.good, ...(!isCompared && { Guardrail: metric.action }),
    ...(metric.waiting && { "Not counted yet": plural(metric.waiting, "unit") }),
  };
  view.facts.replaceChildren(...pairs(facts));
  view.chart.show(metric.points.map((point) => ({ ...point, at: Date.parse(point.at) })), 1000, Infinity);
}
