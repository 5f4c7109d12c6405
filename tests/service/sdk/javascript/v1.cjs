// The official SDK of v1.0, unmodified. Prints what it got, as JSON.
const { PersonalizerClient } = require("@azure/cognitiveservices-personalizer");
const { ApiKeyCredentials } = require("@azure/ms-rest-js");

const header = (key) => new ApiKeyCredentials({ inHeader: { "Ocp-Apim-Subscription-Key": key } });
const [endpoint, key, loop] = process.argv.slice(2);
const client = new PersonalizerClient(header(key), endpoint);
// This SDK loses the path of an endpoint (the others keep it): another loop is named by the base of all paths.
if (loop) client.baseUri = `${endpoint}/loops/${loop}/personalizer/v1.0`;
const request = {
  contextFeatures: [{ timeOfDay: "night" }, { device: { mobile: true } }],
  actions: [
    { id: "pasta", features: [{ taste: "salty", spice: 2.5 }] },
    { id: "juice", features: [{ taste: "sweet" }] },
  ],
  excludedActions: ["juice"],
  eventId: "evt 1/å",
  deferActivation: true,
};
const failure = (error) => ({ status: error.statusCode, code: error.body?.error?.code });

async function main() {
  const ranked = await client.rank(request);
  const activated = await client.events.activate(ranked.eventId);
  const rewarded = await client.events.reward(ranked.eventId, { value: 0.5 });
  const stranger = new PersonalizerClient(header("wrong"), endpoint);
  return {
    ranked: { ...ranked },
    rankStatus: ranked._response.status,
    statuses: [activated._response.status, rewarded._response.status],
    refused: await client.rank({ actions: [] }).catch(failure),
    tooMuch: await client.events.reward(ranked.eventId, { value: 2 }).catch(failure),
    unknown: await client.events.reward("nobody", { value: 1 }).catch(failure),
    stranger: await stranger.rank(request).catch(failure),
  };
}

main().then((got) => console.log(JSON.stringify(got)));
