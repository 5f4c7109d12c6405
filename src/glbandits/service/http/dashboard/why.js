// The explanation of an event: a table of the largest contributions to the score of each action.

const MOST_FEATURES = 8, MOST_EXPLAINED = 10;

/** A section that loads the explanation when it is opened, and again after an error. */
function whySection(event) {
  const body = element("div", { "aria-live": "polite" });
  const section = element("details", { class: "why" }, element("summary", {}, "Why"), body);
  let state = "closed";
  section.addEventListener("toggle", async () => {
    if (!section.open || state !== "closed") return;
    state = "loading";
    body.replaceChildren(element("p", { class: "muted" }, "Loading. An old decision may take some seconds."));
    try {
      const path = `/v1/events/${encodeURIComponent(event.eventId)}/explanation?limit=${MOST_FEATURES}`;
      body.replaceChildren(...explanationParts(await fetchLoop(path), event));
      state = "loaded";
    } catch (problem) {
      body.replaceChildren(element("p", { class: "problem" }, problem.message));
      state = "closed";
    }
  });
  return section;
}

function explanationParts({ slots }, event) {
  const { explainedBy, actions } = slots.find(({ slot }) => slot === event.slot);
  const ranked = [...actions].sort((a, b) => b.shown - a.shown || b.score - a.score);
  const listed = ranked.slice(0, MOST_EXPLAINED);
  const largest = Math.max(...listed.flatMap((action) => action.contributions.map((term) => Math.abs(term.contribution)))) || 1;
  const parts = [element("p", { class: "muted" }, "The contributions of an action add up to its score, the model's estimate of the reward on the scale of the link. The score does not include exploration.")];
  if (explainedBy !== event.modelVersion) {
    parts.push(element("p", { class: "notice" }, `The model that decided, ${event.modelVersion}, cannot be computed from the log. These are the contributions in the present model, ${explainedBy}.`));
  }
  parts.push(...listed.flatMap((action) => explainedAction(action, largest)));
  if (listed.length < actions.length) parts.push(element("p", { class: "muted" }, `${count(actions.length - listed.length)} actions with lower scores are not listed.`));
  return parts;
}

function explainedAction(action, largest) {
  const digits = decimals(largest / 10); // so that the largest contribution has three digits
  const roles = [action.shown && "shown", action.chosen && "drawn"].filter(Boolean).join(", ");
  const rows = action.contributions.map(({ feature, value, contribution }) => [
    clipped(feature), value === null ? "" : `${1 * value.toPrecision(4)}`.replace("-", "−"),
    signedBar(contribution / largest), `${contribution > 0 ? "+" : ""}${plain(contribution, digits)}`,
  ]);
  const payoff = action.value === null ? "" : `, value ${1 * action.value.toPrecision(4)}, cost ${1 * action.cost.toPrecision(4)}`;
  const facts = `score ${plain(action.score, digits)}${payoff}, probability ${percent(action.probability)}${roles && `, ${roles}`}`;
  return [element("h4", {}, clipped(action.id), element("span", { class: "muted" }, facts)), table(["Feature", "Value", "", "Contribution"], rows)];
}

/** A bar from the middle: to the right for positive shares, to the left for negative ones. */
function signedBar(share) {
  const node = bar(Math.abs(share) / 2, share < 0 ? "minus" : "plus");
  node.classList.add("signed");
  node.firstChild.style.marginLeft = `${50 + 50 * Math.min(0, share)}%`;
  return node;
}
