// Search of the log by the beginning of event ids.

const PAGE = 20;

let latestSearch, searchSoon, nextBefore;

/** Show the newest events, or with `before` the ones before a sequence number below them. */
async function searchEvents(where = {}) {
  clearTimeout(searchSoon);
  const current = latestSearch = {}; // a response is dropped if a newer search has started
  try {
    const { events, before } = await fetchLoop(`/v1/events?${new URLSearchParams({ prefix: byId("prefix").value, limit: PAGE, ...where })}`);
    if (current !== latestSearch) return;
    if (!("before" in where)) byId("events").replaceChildren();
    byId("events").append(...events.map(eventDetails));
    nextBefore = before;
    byId("more").hidden = before === null;
    const shown = byId("events").childElementCount;
    byId("found").textContent = shown ? `The newest ${shown}${before === null ? " (all)" : ""}` : "No event id begins with this";
  } catch (problem) {
    if (current === latestSearch) byId("found").textContent = problem.message;
  }
}

byId("search").addEventListener("submit", (event) => { event.preventDefault(); searchEvents(); });
byId("prefix").addEventListener("input", () => { clearTimeout(searchSoon); searchSoon = setTimeout(searchEvents, 300); });
byId("more").addEventListener("click", () => searchEvents({ before: nextBefore }));

/** A line for an event, which opens to its details. */
function eventDetails(event) {
  const values = event.rewards.filter(({ metric }) => !metric).map(({ value }) => (value === null ? "not observed" : plain(value, 3) * 1));
  const what = [values.length ? `reward ${values.join(", ")}` : "no reward", event.group === "control" && "control", event.fallback && "fallback", event.repeats && "again"];
  const details = element("details", { class: "event" },
    element("summary", {},
      element("span", { class: "id" }, event.slot ? `${event.eventId} / ${event.slot}` : event.eventId),
      clipped(event.actions[event.shown]),
      element("span", { class: "what" }, what.filter(Boolean).join(", ")),
      element("span", { class: "what when" }, timeText(Date.parse(event.at), true))));
  details.addEventListener("toggle", () => details.append(...eventParts(event)), { once: true });
  return details;
}

function eventParts(event) {
  const known = {
    "Sequence number": count(event.number), Model: event.modelVersion, Mode: event.mode, Probability: percent(event.probability),
    "Reward window": duration(event.wait), "Default reward": `${event.defaultReward}`, Aggregation: event.aggregation,
    Exploration: percent(event.exploration), Seed: event.seed,
    ...(event.group && { Group: event.group }), ...(event.fallback && { Fallback: "a guardrail had stopped the loop" }),
    ...(event.repeats && { "Again, from": event.repeats }), ...(event.unit && { "Hash of the unit": event.unit }),
    ...(event.deferred && { Activated: event.activatedAt === null ? "no" : timeText(Date.parse(event.activatedAt), true) }),
  };
  const features = element("details", {}, element("summary", {}, "Features"), element("pre", {}, JSON.stringify(event.features, null, 1)));
  return [
    element("dl", { class: "pairs" }, ...pairs(known)),
    element("h3", {}, "Actions"), element("div", { class: "scroll" }, actionTable(event)), whySection(event),
    element("h3", {}, "Rewards and metrics"), rewardTable(event), features,
  ];
}

function actionTable(event) {
  const payoffs = Object.entries({ Value: event.values, Cost: event.costs }).filter(([, numbers]) => numbers);
  const rows = event.actions.map((action, index) => {
    const roles = [index === event.shown && "shown", index === event.chosen && "drawn", event.excluded.includes(index) && "excluded"];
    const probability = event.probabilities[index];
    return [clipped(action), roles.filter(Boolean).join(", "), bar(probability, index === event.shown ? "c0" : "rest"), percent(probability), ...payoffs.map(([, numbers]) => `${numbers[index]}`)];
  });
  const actions = table(["Action", "", "", "Probability", ...payoffs.map(([name]) => name)], rows);
  actions.tBodies[0].rows[event.shown].className = "shown";
  return actions;
}

function rewardTable(event) {
  if (!event.rewards.length) return element("p", { class: "muted" }, "None yet.");
  const rows = event.rewards.map(({ at, metric, value, key, late }) => [
    clipped(metric || "reward"), timeText(Date.parse(at), true), duration((Date.parse(at) - Date.parse(event.at)) / 1000), value === null ? "not observed" : `${value}`, clipped(key), late ? "late" : "in time",
  ]);
  return element("div", { class: "scroll" }, table(["Name", "At", "After", "Value", "Key", ""], rows));
}
