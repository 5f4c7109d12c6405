// Chooses an offer for each visitor of a shop and sends the reward: node build/offers.js ADDRESS KEY
import createClient from "openapi-fetch";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { components, paths } from "./glbandits.js";

type Schemas = components["schemas"];
type Answer<T> = { data?: T; error?: Schemas["Problem"]; response: Response };

const TRIES = 4;
const OFFERS = ["coat", "hat", "scarf"];
const [address, key] = process.argv.slice(2);
if (!address || !key) throw new Error("usage: node build/offers.js ADDRESS KEY");
const client = createClient<paths>({ baseUrl: address, headers: { Authorization: `Bearer ${key}` } });

/** Sends a request again if the server is busy or lost. An event id or a key makes that safe: it counts once. */
async function send<T>(request: () => Promise<Answer<T>>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const answer = await request().catch((error: unknown) => {
      if (attempt === TRIES) throw error;
      return undefined;
    });
    if (answer?.data !== undefined) return answer.data;
    if (answer && (attempt === TRIES || ![429, 503].includes(answer.response.status)))
      throw new Error(`${answer.response.status} ${answer.error?.code}: ${answer.error?.detail}`);
    await sleep(1000 * Number(answer?.response.headers.get("retry-after") ?? 0.1));
  }
}

async function decide(hour: number): Promise<Schemas["Decided"]> {
  const rows = OFFERS.map((offer) => ({ offer }));
  const body: Schemas["DecideRequest"] = { eventId: randomUUID(), context: { hour }, rows };
  return send(() => client.POST("/v1/decide", { body }));
}

async function reward(eventId: string, value: number): Promise<void> {
  const body: Schemas["EventRewardRequest"] = { eventId, value, key: randomUUID() };
  await send(() => client.POST("/v1/reward", { body }));
}

let clicks = 0;
const visits = 20;
for (let visit = 0; visit < visits; visit++) {
  const decided = await decide(visit % 24);
  const clicked = OFFERS[decided.arm] === "hat" ? 1 : 0; // here you show the offer to the visitor
  await reward(decided.eventId, clicked);
  clicks += clicked;
}
console.log(JSON.stringify({ visits, clicks }));
