/* Search prefers guides to the API, and both to the reasons and figures behind them. */
const PENALTIES = [
  [/^(benchmarks|regret|results|claims|glossary|notation)$/, 40],
  [/^api\//, 20],
  [/^theory\//, 4],
];
var Scorer = {
  score: ([page, , , , score]) => score - (PENALTIES.find(([pages]) => pages.test(page))?.[1] ?? 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
