// The verdicts on past decisions, against random choice and the baseline, and on the present model, in words and as intervals.

const VERDICTS = {
  better: "Better than", worse: "Worse than", same: "No difference seen yet", early: "Too early to tell",
  silent: "No rewards received", blind: "Too little exploration", apprentice: "Apprentice mode", unlimited: "Reward limits are needed",
};
const VERDICT_STYLES = { better: "good", worse: "bad" }, BASELINE = "the baseline", RANDOM = "random choice";
const WINDOWS = { hour: "in the hour up to", day: "in the day up to", all: "up to" };

/** The judgement for the headline: of the present model if it has an answer, else of past decisions. While these have no
 * answer about the baseline, that about random choice leads, because it comes first. */
function leading({ past, present, uniform }) {
  if (["better", "worse", "silent"].includes(present.verdict)) return present;
  return uniform.verdict in VERDICT_STYLES && !(past.verdict in VERDICT_STYLES) ? uniform : past;
}

/** A verdict in words. `other` is what a loop was compared with. */
const verdictText = (verdict, other) => VERDICTS[verdict] + (verdict in VERDICT_STYLES ? ` ${other}` : "");

function renderAnswer(statistics, status, guardrails) {
  const { past, present, uniform } = statistics, { verdict } = leading(statistics), isStopped = guardrails.state === "fallback";
  const problems = isStopped ? null : guardrailProblems(guardrails); // a banner announces the stop
  byId("answer").dataset.verdict = isStopped ? "stopped" : problems ? "warned" : verdict;
  const rest = problems ? `, ${verdict === "better" ? "but" : "and"} ${problems.words}` : "";
  setText("headline", isStopped ? "Stopped by a guardrail" : headline(statistics, status) + rest);
  byId("problems").replaceChildren(...(problems?.lines ?? []).map((text) => element("li", {}, text)));
  setText("sentence", sentence(statistics, status));
  setText("remark", remarks(statistics, status, guardrails).join(" "));
  byId("judgements").hidden = past.decisions === 0;
  if (!past.decisions) return;
  const numbers = [past, present, uniform].flatMap(({ low, high }) => [low, high]).filter((number) => number !== null);
  const shown = [["uniform", uniform, "all", RANDOM], ["past", past, "all", BASELINE], ["present", present, "the last", BASELINE]];
  for (const [id, judged, which, other] of shown) {
    byId(id).hidden = isStopped && !judged.decisions;
    const words = byId(id).querySelector("p"), text = judgement(judged, which, other, isStopped);
    if (words.textContent !== text) words.replaceChildren(text);
    drawInterval(byId(id).querySelector(".plot"), judged, VERDICT_STYLES[judged.verdict] ?? "", numbers);
  }
}

function headline(statistics, { mode }) {
  const { past } = statistics, first = leading(statistics), { verdict } = first;
  if (mode === "LoggingOnly" && !statistics.learned && !past.decisions) return "Logging only";
  if (verdict === "early") return `Too early: ${decisions(past.decisions)}`;
  const words = verdictText(verdict, first === statistics.uniform ? RANDOM : BASELINE);
  return words + (first !== statistics.present && verdict in VERDICT_STYLES ? " so far" : "");
}

function sentence(statistics, status) {
  const { verdict } = leading(statistics);
  if (!statistics.decisions) return `No decision is settled yet. The reward window is ${duration(statistics.wait)}.`;
  const last = statistics.points.at(-1);
  const when = `${WINDOWS[statistics.window]} ${timeText(Date.parse(last.at) + 1000 * statistics.width)}`;
  const over = `over ${decisions(statistics.decisions)} ${when}`;
  if (!statistics.learned) return `Nothing was learned ${over}, because the mode is ${status.mode} or no deferred decision was activated.`;
  if (!statistics.compared) return `Only repeats and decisions of the control group or of a stopped loop were learned ${over}.`;
  if (verdict === "silent") return `Every decision got the default reward, ${over}. Check that rewards are sent within ${duration(statistics.wait)}.`;
  if (verdict === "apprentice") {
    return `The baseline is always shown. Its reward is ${estimate(statistics.reward)}, ${over}. The model would have shown the same action in ${percent(statistics.agreed / statistics.decisions)} of them.`;
  }
  if (verdict === "unlimited") return `A verdict needs limits of the rewards, and this loop has none. Set rewardRange in its configuration, for example to [0, 1]. Decisions from then on count.`;
  const baseline = statistics.baseline === null ? "a baseline that was never shown" : `${estimate(statistics.baseline)} of the baseline`;
  return `Reward ${estimate(statistics.reward)} against ${baseline}, ${over}.`;
}

/** A verdict with its evidence, as text. No decision of a stopped loop counts, so its text has no forecast. */
function judgement(judged, which, other, isStopped) {
  const { verdict, difference, low, high, decisionsNeeded } = judged;
  if (!judged.decisions) return `The first verdict comes after 1,024 learned decisions: ${count(decisionsNeeded)} more${expected(judged)}.`;
  const rest = decisionsNeeded === null || isStopped ? "" : ` If the difference stays, an answer needs about ${plural(roughly(decisionsNeeded), "more decision")}${expected(judged)}.`;
  return `${verdictText(verdict, other)}: ${between(difference, low, high)} over ${which} ${decisions(judged.decisions)} since ${dayText(Date.parse(judged.since))}.${rest}`;
}

/** A count rounded to two digits. */
const roughly = (number) => (number < 100 ? number : 1 * number.toPrecision(2));

const expected = ({ expectedAt }) => (expectedAt === null ? "" : `, about ${dayText(Date.parse(expectedAt))} at the present rate`);

/** Other things to know. What the guardrails have found is shown elsewhere. */
function remarks(statistics, status, guardrails) {
  const { past, unlimited } = statistics;
  const texts = status.warnings.map((warning) => `${capital(warning)}.`).filter((text) => !text.endsWith(guardrails.sentence));
  if (status.relearning) texts.push(status.relearning.sentence);
  if (past.unsupported) texts.push(`In ${percent(past.unsupported / past.decisions)} of the decisions the baseline had probability 0, so its reward there is unknown. More exploration helps.`);
  if (unlimited && past.decisions) texts.push(`${decisions(unlimited)} had no reward limits and do not count.`);
  if (statistics.withValues) texts.push("The loop decides by payoff, value times reward minus cost. The verdicts and charts compare rewards, not payoffs.");
  return texts;
}

