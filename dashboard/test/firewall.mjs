// The pages of rules, flows and address translation: what a rule with hits, a flow with its ports and a pool look like.

/** The line of a table that begins with these words, or has them in it. */
const row = (page, table, words) =>
  page.evaluate(
    (name, expected) => [...document.querySelectorAll(`[aria-label="${name}"] tbody tr`)].map((one) => one.innerText).find((text) => text.includes(expected)) ?? "",
    table,
    words,
  );

/** Waits until a line of a table has all of the words. */
const seeRow = (page, table, ...words) =>
  page.waitForFunction(
    (name, expected) => [...document.querySelectorAll(`[aria-label="${name}"] tbody tr`)].some((one) => expected.every((it) => one.innerText.includes(it))),
    {},
    table,
    words,
  );

/** Where an element of the page is: it must not move while counters do. */
const placeOf = (page, place) => page.$eval(place, (one) => JSON.stringify(one.getBoundingClientRect()));

export async function firewall(page, { begin, see, go, fill, button, text, check }) {
  const number = (words) => Number((words.match(/\d[\d\u202f]*/) ?? ["0"])[0].replace(/\D/g, ""));

  begin("rules have their hits, and those that never matched are named");
  await go("#/rules");
  await seeRow(page, "Rules of edge", "udp", "UDP", "accept", "stateful");
  await page.waitForFunction(() => [...document.querySelectorAll('[aria-label="Rules of edge"] .bar')].some((one) => Number(one.innerText) >= 1));
  check((await row(page, "Rules of edge", "web")).includes("never"), await row(page, "Rules of edge", "web"));
  check(!(await row(page, "Rules of edge", "udp")).includes("never"), await row(page, "Rules of edge", "udp"));
  await see("input of in");
  await page.locator("[name=never]").click();
  await page.waitForFunction(() => !document.querySelector('[aria-label="Rules of edge"]')?.innerText.includes("udp"));
  await fill("search", "no such rule");
  await see("No rule matches the search");

  begin("the flow of the generator has its ports, and what they are translated to");
  await go("#/flows");
  await seeRow(page, "Flows", "UDP", "198.18.1.2:", "→ 203.0.113.", "198.18.2.2:", "edge");
  await page.waitForFunction(() => /[1-9].*bit\/s/.test(document.querySelector('[aria-label="Flows"] tbody')?.innerText ?? ""));
  await see("udp-new");
  check(number(await text(".figure dd")) >= 1, await text(".figure dd"));
  const before = [await placeOf(page, "[aria-label='Flows'] thead"), await text("[aria-label='Flows'] tbody")];
  await page.waitForFunction((old) => document.querySelector("[aria-label='Flows'] tbody")?.innerText !== old, {}, before[1]);
  check((await placeOf(page, "[aria-label='Flows'] thead")) === before[0], "the table moves when its counters do");

  begin("flows are searched by the router");
  await fill("prefix", "198.18.2.99");
  await button("Search").click();
  await see("No flow meets all conditions");
  await fill("prefix", "203.0.113.0/24");
  await page.keyboard.press("Enter");
  await seeRow(page, "Flows", "198.18.1.2:");
  await fill("protocol", "tcp");
  await see("No flow meets all conditions");
  await go("#/flows?prefix=ten");
  await page.waitForSelector(".notice.bad");

  begin("address translation has its policy, its pool and its mapping");
  await go("#/nat");
  await seeRow(page, "Policies", "1/10", "198.18.1.0/24", "203.0.113.16/28", "1 flow");
  await page.waitForFunction(() => [...document.querySelectorAll(".figure")].some((one) => one.innerText.includes("Pool addresses in use") && one.innerText.includes("of 16")));
  await seeRow(page, "External addresses", "203.0.113.");
  await seeRow(page, "Static mappings", "203.0.113.40:443", "198.18.1.80:8443");
  await seeRow(page, "Mappings", "203.0.113.", "198.18.1.2:", "1/10");
  await fill("prefix", "198.18.1.99");
  await see("No mapping meets the conditions");
}
