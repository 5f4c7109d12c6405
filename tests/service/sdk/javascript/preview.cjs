// The REST SDK of v1.1-preview.3, unmodified. Prints what it got, as JSON.
const { default: createClient, isUnexpected } = require("@azure-rest/ai-personalizer");

const [endpoint, key] = process.argv.slice(2);
const client = createClient(endpoint, { key }, { allowInsecureConnection: true });
const actions = [
  { id: "pasta", features: [{ taste: "salty", spice: 2.5 }] },
  { id: "juice", features: [{ taste: "sweet" }] },
];
const contextFeatures = [{ timeOfDay: "night" }];
const slots = [
  { id: "top", features: [{ size: "large" }], baselineAction: "pasta" },
  { id: "side", features: [{ size: "small" }], baselineAction: "juice" },
];

async function main() {
  const post = (path, body, ...values) => client.path(path, ...values).post(body === undefined ? {} : { body });
  const get = (path) => client.path(path).get();
  const ranked = await post("/rank", { contextFeatures, actions, eventId: "evt 1", deferActivation: true });
  const rewards = { reward: [{ slotId: "top", value: 1 }, { slotId: "side", value: 0 }] };
  const slotted = await post("/multislot/rank", { contextFeatures, actions, slots, eventId: "two" });
  const refused = await post("/rank", { actions: [] });
  const configured = await client.path("/configurations/service").put({ body: { rewardWaitTime: "PT5M" } });
  const optimised = { isAutoOptimizationEnabled: false, autoOptimizationFrequency: "P14D", autoOptimizationStartDate: "2126-01-01T00:00:00Z" };
  const optimisation = await client.path("/configurations/service").put({ body: { rewardWaitTime: "PT5M", ...optimised } });
  return {
    ranked: ranked.body,
    slotted: slotted.body,
    refused: { unexpected: isUnexpected(refused), code: refused.body.error.code, header: refused.headers["x-ms-error-code"] },
    wait: configured.body.rewardWaitTime,
    optimisation: optimisation.body.isAutoOptimizationEnabled,
    policy: (await get("/configurations/policy")).body.name,
    statuses: {
      rank: ranked.status,
      multiSlotRank: slotted.status,
      activate: (await post("/events/{eventId}/activate", undefined, "evt 1")).status,
      reward: (await post("/events/{eventId}/reward", { value: 1 }, "evt 1")).status,
      multiSlotReward: (await post("/multislot/events/{eventId}/reward", rewards, "two")).status,
      multiSlotActivate: (await post("/multislot/events/{eventId}/activate", undefined, "two")).status,
      unknown: (await post("/events/{eventId}/reward", { value: 1 }, "nobody")).status,
      resetPolicy: (await client.path("/configurations/policy").delete()).status,
    },
  };
}

main().then((got) => console.log(JSON.stringify(got)));
