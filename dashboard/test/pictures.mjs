// Pictures of the pages for the guide, of a running router: node test/pictures.mjs URL USER PASSWORD FOLDER [SECONDS]
// It waits SECONDS (40) on the pages with charts. What is saved for the pictures is discarded; the forms are filled in
// and not saved. INTERFACE, SEARCH and FLOWS name what is shown. With NAMES ("json vrrp-form"), it takes these pictures
// alone.
import { statSync } from "node:fs";
import { join } from "node:path";
import puppeteer from "puppeteer-core";

const [, , url, user, password, folder, seconds = "40"] = process.argv;
const WIDE = { width: 1240, height: 800 };
const PHONE = { width: 390, height: 844, isMobile: true, hasTouch: true, deviceScaleFactor: 1.5 };

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  acceptInsecureCerts: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--force-color-profile=srgb"],
});
const page = await browser.newPage();
page.setDefaultTimeout(20_000);
await page.setViewport(WIDE);
await page.goto(url);
await page.locator("input[name=user]").fill(user);
await page.locator("input[name=password]").fill(password);
await page.keyboard.press("Enter");
await page.waitForSelector(".frame");

const pause = (time) => new Promise((done) => setTimeout(done, time * 1000));
const button = (words) => page.locator(`::-p-xpath(//button[normalize-space()="${words}"])`);
const call = (operation) =>
  page.evaluate((name) => fetch(`/restconf/operations/${name}`, { method: "POST", headers: { "x-stoa-request": "1" } }).then((it) => it.status), operation);

const names = (process.env.NAMES ?? "").split(" ").filter((name) => name !== "");

/** Takes a picture of a place in the page. */
async function take(name, place, theme, wait, before = async () => undefined) {
  if (names.length > 0 && !names.includes(name)) return;
  await page.emulateMediaFeatures([
    { name: "prefers-color-scheme", value: theme },
    { name: "prefers-reduced-motion", value: "reduce" },
  ]);
  await page.evaluate((to) => void (location.hash = to), `#/${place}`);
  await pause(1);
  await before();
  await pause(wait);
  const path = join(folder, `web-${name}.png`);
  await page.screenshot({ path });
  console.log(`${path}: ${statSync(path).size} bytes`);
}

const fill = async (values) => {
  for (const [name, value] of Object.entries(values)) await page.locator(`[name="${name}"]`).fill(value);
};

/** The forms of policy rules, BFD sessions and virtual routers, filled in. */
async function takeForms() {
  await take("policy-form", "configuration/policy/new", "light", 1, async () => {
    await fill({ source: "10.1.0.0/16", protocol: "TCP", "destination-port": "80", description: "Web traffic of the first floor", action: "table", table: "default" });
  });
  await take("bfd-form", "configuration/bfd/new", "light", 1, async () => {
    await fill({ interface: first, peer: "192.0.2.1", transmit: "100", receive: "100", multiplier: "3" });
  });
  await take("vrrp-form", "configuration/vrrp/new", "dark", 1, async () => {
    await fill({ interface: first, vrid: "51", address: "192.0.2.254", priority: "150", interval: "0.2" });
    await button("Track a network").click();
    await fill({ "tracked-network": "0.0.0.0/0" });
    await page.evaluate(() => document.querySelector("[name=vrid]").scrollIntoView());
  });
}

const first = process.env.INTERFACE ?? "host-a";
const long = Number(seconds);
await take("overview", "", "dark", long);
await take("interface", `interfaces/${first}`, "light", long);
await take("interfaces", "interfaces", "light", 3);
await take("graph", "graph", "dark", 4);
await take("routes", `routes?search=${process.env.SEARCH ?? "10.0.0.0/8"}`, "light", 2);
await take("rules", "rules", "light", 5);
await take("flows", process.env.FLOWS ? `flows?${process.env.FLOWS}` : "flows", "dark", 8);
await take("nat", "nat", "light", 5);
await take("capture", `capture?interface=${first}`, "light", 8, async () => {
  await button("Start").click();
});
await take("commit", `configuration/interfaces/${first}`, "light", 3, async () => {
  await page.locator("input[name=description]").fill("To the customers of the first floor");
  await button("Save to candidate").click();
  await pause(1);
  await page.evaluate(() => void (location.hash = "#/configuration/commit"));
});
if (names.length === 0 || names.includes("commit")) await call("stoa-datastore:discard");
await take("json", "configuration/json", "light", 3);
await takeForms();
await take("history", "history", "dark", 2, async () => {
  await button("Show changes").click().catch(() => undefined);
});
await page.setViewport(PHONE);
await take("phone", "", "dark", 10);
for (const [name, place] of process.env.ALL ? [["drops", "drops"], ["workers", "workers"], ["neighbors", "neighbors"], ["forms", `configuration/interfaces/${first}`], ["json", "configuration/json"], ["static", "configuration/routes"], ["new", "configuration/new"], ["policy-rules", "configuration/policy"], ["bfd", "configuration/bfd"], ["routers", "configuration/vrrp"], ["daemons", "daemons"], ["sessions", "sessions"], ["vrrp", "vrrp"], ["policy", "policy"], ["rules", "rules"], ["flows", "flows"], ["nat", "nat"], ["log", "log"]] : []) {
  await page.setViewport(WIDE);
  await take(`${name}-wide`, place, "light", 3);
  await page.setViewport(PHONE);
  await take(`${name}-phone`, place, "dark", 3);
}
await browser.close();
