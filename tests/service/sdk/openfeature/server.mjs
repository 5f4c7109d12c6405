// Evaluates flags with the server SDK and its OFREP provider, runs the page's tracking code, and prints what it got.
import { readFileSync } from 'node:fs';
import { OpenFeature } from '@openfeature/server-sdk';
import { OFREPProvider } from '@openfeature/ofrep-provider';

const [baseUrl, key, tracking] = process.argv.slice(2);
const client = (name, url, headers) => {
  const provider = new OFREPProvider({ baseUrl: url, headers });
  return OpenFeature.setProviderAndWait(name, provider).then(() => [OpenFeature.getClient(name), provider]);
};
const headers = { 'X-API-Key': key };
const [flags, provider] = await client('flags', baseUrl, headers);
const context = { targetingKey: 'ann', plan: 'free', age: 41, device: { phone: true } };
const found = {
  boolean: await flags.getBooleanDetails('boolean', false, context),
  string: await flags.getStringDetails('string', '', context),
  integer: await flags.getNumberDetails('integer', 0, context),
  float: await flags.getNumberDetails('float', 0, context),
  object: await flags.getObjectDetails('object', {}, context),
  missing: await flags.getStringDetails('nothing', 'own', context),
  badContext: await flags.getStringDetails('banner', 'own', { ...context, groups: ['a', 'b'] }),
  noUnit: await flags.getStringDetails('banner', 'own', { plan: 'free' }),
  noKey: await (await client('no key', baseUrl, {}))[0].getStringDetails('banner', 'own', context),
  down: await (await client('down', 'http://127.0.0.1:9', headers))[0].getStringDetails('banner', 'own', context),
  banner: await flags.getStringDetails('banner', 'own', context),
};
new Function('provider', 'baseUrl', 'headers', readFileSync(tracking, 'utf-8'))(provider, baseUrl, headers);
flags.track('purchase', context, { value: 0.5 });
console.log(JSON.stringify(found));
