// The answer: the verdicts on the past and on the present, in words and as intervals.

const VERDICTS = {
  better: "Better than the baseline", worse: "Worse than the baseline", same: "No difference seen yet", early: "Too early to tell",
  silent: "No rewards come", blind: "It cannot be told", apprentice: "An apprentice", unlimited: "Reward limits are needed",
  no_baseline: "A baseline is needed",
};
const LOOKS = { better: "good", worse: "bad" };
const WINDOWS = { hour: "in the hour up to", day: "in the day up to", all: "up to" };

/** The judgement for the headline: that of the present model if it has an answer, else that of the past. */
const leading = ({ past, present }) => (["better", "worse", "silent"].includes(present.verdict) ? present : past);

function tellAnswer(figures, status) {
  const { past, present } = figures;
  part("answer").dataset.verdict = leading(figures).verdict;
  say("headline", headline(figures, status));
  say("sentence", sentence(figures, status));
  say("remark", remarks(figures).join(" "));
  say("optimisation", optimisation(status.optimisation));
  part("judgements").hidden = past.decisions === 0;
  if (!past.decisions) return;
  const numbers = [past.low, past.high, present.low, present.high].filter((number) => number !== null);
  for (const [id, judged, which] of [["past", past, "all"], ["present", present, "the last"]]) {
    const words = part(id).querySelector("p"), text = judgement(judged, which);
    if (words.textContent !== text) words.replaceChildren(text);
    drawInterval(part(id).querySelector(".plot"), judged, LOOKS[judged.verdict] ?? "", numbers);
  }
}

function headline(figures, { mode }) {
  const { past } = figures, first = leading(figures), { verdict } = first;
  if (mode === "LoggingOnly" && !figures.learned && !past.decisions) return "It only logs";
  if (verdict === "early") return `Too early: ${decisions(past.decisions)}`;
  return VERDICTS[verdict] + (first === past && verdict in LOOKS ? " so far" : "");
}

function sentence(figures, status) {
  const { verdict } = leading(figures);
  if (!figures.decisions) return `No decision is old enough to be learned. Each waits ${duration(figures.wait)} for its rewards.`;
  const last = figures.points.at(-1);
  const when = `${WINDOWS[figures.window]} ${moment(Date.parse(last.at) + 1000 * figures.width)}`;
  const over = `over ${decisions(figures.decisions)} ${when}`;
  if (!figures.learned) return `Nothing was learned ${over}: the mode is ${status.mode}, or no deferred decision was activated.`;
  if (verdict === "silent") return `Every decision counts the default reward, ${over}. Are rewards sent, and within ${duration(figures.wait)}?`;
  if (verdict === "apprentice") {
    return `The baseline is shown and has the reward ${estimate(figures.reward)}, ${over}. The model would have shown the same in ${percent(figures.agreed / figures.decisions)}.`;
  }
  if (verdict === "unlimited") return "Rewards of this loop have no limits, and a verdict needs them. Set rewardRange in its configuration, for example [0, 1]: decisions from then on are judged.";
  if (verdict === "no_baseline") return "Decisions from the catalogue name no baseline, and a verdict needs one. Send the id of the arm that you would show without a model as baseline: decisions from then on are judged.";
  const baseline = figures.baseline === null ? "a baseline that was never shown" : `${estimate(figures.baseline)} of the baseline`;
  return `Reward ${estimate(figures.reward)} against ${baseline}, ${over}.`;
}

/** What is said of the past or of the present. */
function judgement(judged, which) {
  const { verdict, difference, low, high, decisionsNeeded } = judged;
  if (!judged.decisions) return `Judged once it has learned from 1,024 decisions: ${count(decisionsNeeded)} more${expected(judged)}.`;
  const rest = decisionsNeeded === null ? "" : ` If the difference stays so, about ${plural(roughly(decisionsNeeded), "more decision")} will tell${expected(judged)}.`;
  return `${VERDICTS[verdict]}: ${between(difference, low, high)} over ${which} ${decisions(judged.decisions)} since ${day(Date.parse(judged.since))}.${rest}`;
}

/** Two digits of a count. */
const roughly = (number) => (number < 100 ? number : 1 * number.toPrecision(2));

const expected = ({ expectedAt }) => (expectedAt === null ? "" : `, about ${day(Date.parse(expectedAt))} at the present rate`);

function remarks({ past, unlimited }) {
  const said = [];
  if (past.unsupported) said.push(`In ${percent(past.unsupported / past.decisions)} the baseline had probability 0, and what it would have earned there is not known: some exploration would tell.`);
  if (unlimited && past.decisions) said.push(`${decisions(unlimited)} had no reward limits and are not judged.`);
  return said;
}

/** What the auto-optimisation found, and when it looks again; nothing if it is off and never looked. */
function optimisation({ nextAt, last }) {
  if (nextAt === null && last === null) return "";
  const found = last === null ? "" : ` ${last.sentence} (${day(Date.parse(last.at))})`;
  return `Auto-optimisation:${found} ${nextAt === null ? "It is off." : `The next look is due ${day(Date.parse(nextAt))}.`}`;
}
