// The log, searched by how event ids begin.

const PAGE = 20;

class EventSearch {
  /** @param ask gives the JSON of a path of this loop. */
  constructor(ask) {
    this.ask = ask;
    this.list = document.getElementById("events");
    this.more = document.getElementById("more");
    this.found = document.getElementById("found");
    this.prefix = document.getElementById("prefix");
    document.getElementById("search").addEventListener("submit", (event) => { event.preventDefault(); this.search(); });
    this.prefix.addEventListener("input", () => { clearTimeout(this.soon); this.soon = setTimeout(() => this.search(), 300); });
    this.more.addEventListener("click", () => this.page(this.before));
  }

  search() {
    clearTimeout(this.soon);
    return this.page(null);
  }

  async page(before) {
    const asked = this.asked = {}; // an answer that was overtaken is dropped
    const parameters = new URLSearchParams({ prefix: this.prefix.value, limit: PAGE });
    if (before !== null) parameters.set("before", before);
    try {
      const answer = await this.ask(`/v1/events?${parameters}`);
      if (asked !== this.asked) return;
      if (before === null) this.list.replaceChildren();
      this.list.append(...answer.events.map((event) => eventDetails(event, this.ask)));
      this.before = answer.before;
      this.more.hidden = this.before === null;
      const shown = this.list.childElementCount;
      this.found.textContent = shown ? `The newest ${shown}${this.more.hidden ? ", which are all" : ""}` : "No event begins so";
    } catch (problem) {
      if (asked === this.asked) this.found.textContent = problem.message;
    }
  }
}

/** A line for an event, which opens to all that is known of it. */
function eventDetails(event, ask) {
  const rewards = event.rewards.length ? `reward ${event.rewards.map((one) => plain(one.value, 3) * 1).join(", ")}` : "no reward";
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
  const rows = event.actions.map((action, place) => {
    const roles = [place === event.shown && "shown", place === event.chosen && "drawn", event.excluded.includes(place) && "excluded"];
    return element("tr", { class: place === event.shown ? "shown" : null },
      element("td", {}, clipped(action)), element("td", {}, roles.filter(Boolean).join(", ")),
      element("td", { class: "chance" }, bar(event.probabilities[place], place === event.shown ? "c0" : "rest")),
      element("td", {}, percent(event.probabilities[place])));
  });
  const head = element("tr", {}, ...["Action", "", "", "Probability"].map((text) => element("th", {}, text)));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}

function rewardTable(event) {
  if (!event.rewards.length) return element("p", { class: "muted" }, "None has come.");
  const rows = event.rewards.map((one) => [
    moment(Date.parse(one.at), true), duration((Date.parse(one.at) - Date.parse(event.at)) / 1000), `${one.value}`, clipped(one.key), one.late ? "late" : "in time",
  ]);
  return element("div", { class: "scroll" }, element("table", {}, ...table(["At", "After", "Value", "Key", ""], rows)));
}
