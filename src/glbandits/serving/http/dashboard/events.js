// The log, searched by how event ids begin.

const PAGE = 20;

class EventSearch {
  /** @param ask gives the JSON of a path of this loop. */
  constructor(ask) {
    this.ask = ask;
    part("search").addEventListener("submit", (event) => { event.preventDefault(); this.search(); });
    part("prefix").addEventListener("input", () => { clearTimeout(this.soon); this.soon = setTimeout(() => this.search(), 300); });
    part("more").addEventListener("click", () => this.page({ before: this.before }));
  }

  search() {
    clearTimeout(this.soon);
    return this.page({});
  }

  async page(where) {
    const latest = this.latest = {}; // an answer that was overtaken is dropped
    try {
      const { events, before } = await this.ask(`/v1/events?${new URLSearchParams({ prefix: part("prefix").value, limit: PAGE, ...where })}`);
      if (latest !== this.latest) return;
      if (!("before" in where)) part("events").replaceChildren();
      part("events").append(...events.map((event) => eventDetails(event, this.ask)));
      this.before = before;
      part("more").hidden = before === null;
      const shown = part("events").childElementCount;
      part("found").textContent = shown ? `The newest ${shown}${before === null ? ", which are all" : ""}` : "No event begins so";
    } catch (problem) {
      if (latest === this.latest) part("found").textContent = problem.message;
    }
  }
}

/** A line for an event, which opens to all that is known of it. */
function eventDetails(event, ask) {
  const rewards = event.rewards.length ? `reward ${event.rewards.map(({ value }) => plain(value, 3) * 1).join(", ")}` : "no reward";
  const details = element("details", { class: "event" },
    element("summary", {},
      element("span", { class: "id" }, event.slot ? `${event.eventId} / ${event.slot}` : event.eventId),
      clipped(event.actions[event.shown]),
      element("span", { class: "what" }, rewards),
      element("span", { class: "what when" }, moment(Date.parse(event.at), true))));
  details.addEventListener("toggle", () => details.append(...eventParts(event, ask)), { once: true });
  return details;
}

function eventParts(event, ask) {
  const known = {
    Number: count(event.number), Model: event.modelVersion, Mode: event.mode, Probability: percent(event.probability),
    "Waits for": duration(event.wait), "Default reward": `${event.defaultReward}`, Aggregation: event.aggregation,
    Exploration: percent(event.exploration), Seed: event.seed,
    ...(event.deferred && { Activated: event.activatedAt === null ? "no" : moment(Date.parse(event.activatedAt), true) }),
  };
  const features = element("details", {}, element("summary", {}, "Features"), element("pre", {}, JSON.stringify(event.features, null, 1)));
  return [
    element("dl", { class: "pairs" }, ...Object.entries(known).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))),
    element("h3", {}, "Actions"), element("div", { class: "scroll" }, actionTable(event)), whySection(event, ask),
    element("h3", {}, "Rewards"), rewardTable(event), features,
  ];
}

function actionTable(event) {
  const rows = event.actions.map((action, index) => {
    const roles = [index === event.shown && "shown", index === event.chosen && "drawn", event.excluded.includes(index) && "excluded"];
    const probability = event.probabilities[index];
    return [clipped(action), roles.filter(Boolean).join(", "), bar(probability, index === event.shown ? "c0" : "rest"), percent(probability)];
  });
  const actions = table(["Action", "", "", "Probability"], rows);
  actions.tBodies[0].rows[event.shown].className = "shown";
  return actions;
}

function rewardTable(event) {
  if (!event.rewards.length) return element("p", { class: "muted" }, "None has come.");
  const rows = event.rewards.map(({ at, value, key, late }) => [
    moment(Date.parse(at), true), duration((Date.parse(at) - Date.parse(event.at)) / 1000), `${value}`, clipped(key), late ? "late" : "in time",
  ]);
  return element("div", { class: "scroll" }, table(["At", "After", "Value", "Key", ""], rows));
}
