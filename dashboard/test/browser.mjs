// An operator at the page, in headless Chromium: node test/browser.mjs URL SET-UP-TOKEN FOLDER
// CHROMIUM names the browser. Ends with a line of JSON, or with status 1 and a picture of what was seen last.
import { existsSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import puppeteer from "puppeteer-core";
import { order, refuse } from "./editor.mjs";
import { firewall } from "./firewall.mjs";
import { forms } from "./forms.mjs";

const [, , url, token, folder] = process.argv;
const PATIENCE_MS = 20_000;

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  acceptInsecureCerts: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"],
  protocolTimeout: 60_000,
});
const page = await browser.newPage();
page.setDefaultTimeout(PATIENCE_MS);
await page.setViewport({ width: 1280, height: 900 });
const session = await browser.target().createCDPSession();
await session.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: folder });

/** What the page must never say: faults of scripts, and what its own policy forbids. */
const complaints = [];
page.on("pageerror", (error) => complaints.push(String(error)));
page.on("console", (message) => {
  // Refusals are part of the test; the browser reports them, too.
  if (message.type() === "error" && !message.text().includes("Failed to load resource")) complaints.push(message.text());
});

/** The name of the router, which the page shows. */
const router = hostname();

let step = "";
const begin = (words) => {
  step = words;
  console.log(words);
};
const see = (words, what = "body") =>
  page.waitForFunction((expected, place) => document.querySelector(place)?.innerText.includes(expected), {}, words, what);
const go = (place) => page.evaluate((to) => void (location.hash = to), place);
/** Fills in a field, or chooses in a select, once it is there. */
const fill = (name, value) => page.locator(`[name="${name}"]`).fill(value);
/** Waits for something outside the page; `words`: what is wrong if it never comes. */
const until = async (is, words) => {
  for (const end = Date.now() + 3 * PATIENCE_MS; !(await is()); await new Promise((done) => setTimeout(done, 50))) check(Date.now() < end, words);
};
const button = (words) => page.locator(`::-p-xpath(//button[normalize-space()="${words}"])`);
const labelled = (words) => page.locator(`::-p-aria(${words})`);
const text = (place) => page.$eval(place, (one) => one.innerText);
const running = (path) =>
  page.evaluate(async (at) => (await fetch(`/restconf/data/${at}`, { headers: { "x-stoa-request": "1" } })).json(), path);
const addresses = async () => {
  const data = await running("ietf-interfaces:interfaces/interface=out/ietf-ip:ipv4?content=config");
  return data["ietf-ip:ipv4"].address.map((one) => one.ip);
};
const check = (is, words) => {
  if (!is) throw new Error(words);
};
/** What the other files need. */
const tools = { begin, see, go, fill, button, text, running, check, router };
const number = (words) => Number.parseFloat(words);

async function logIn() {
  begin("create the first user with the setup token");
  await page.goto(url);
  await button("This router has no user yet").click();
  await fill("token", token);
  await fill("user", "ann");
  await fill("password", "correct horse");
  await fill("again", "correct horse");
  await page.keyboard.press("Enter");
  await see("Overview", "h1");

  begin("log out, which clears the page; a wrong password; log in again");
  await page.evaluate(() => void (window.former = true));
  await button("Log out").click();
  await page.waitForFunction(() => !window.former);
  await see("Log in", "h1");
  await fill("user", "ann");
  await fill("password", "wrong horse");
  await button("Log in").click();
  await see("Wrong user, password or token");
  await fill("password", "correct horse");
  await button("Log in").click();
  await see("Overview", "h1");
}

async function names() {
  begin("the page carries the name of the router, not that of the URL");
  await page.waitForFunction((name) => document.title.startsWith(`${name} · Overview`) && document.querySelector(".title .host")?.innerText === name, {}, router);
}

async function traffic() {
  begin("traffic moves on the overview");
  await page.waitForFunction(() => {
    const words = document.querySelector(".figure dd")?.innerText ?? "";
    return Number.parseFloat(words) >= 1 && words.includes("pkt/s");
  });
  await see("Busiest worker");
}

async function hour() {
  begin("a page that was just opened shows what was before");
  const history = () =>
    page.evaluate(async () => {
      const init = { method: "POST", headers: { "x-stoa-request": "1", "content-type": "application/yang-data+json" }, body: '{"stoa-forwarder:input": {"interface": ["in"]}}' };
      const output = (await (await fetch("/restconf/operations/stoa-forwarder:traffic-history", init)).json())["stoa-forwarder:output"];
      return output.interface[0]?.["in-packets"].split(" ").filter((word) => Number(word) > 1000).length ?? 0;
    });
  // The router samples every ten seconds.
  await until(async () => (await history()) >= 1, "the router has no history");
  await go("#/interfaces");
  await page.waitForFunction(() =>
    [...document.querySelectorAll(".spark:has(path.in)")].some((one) => /at most [1-9].*bit\/s/.test(one.getAttribute("aria-label"))),
  );
}

async function create() {
  begin("a VLAN in a new VRF is created by the form");
  await go("#/configuration/new");
  await page.locator("input[value=vlan]").click();
  await fill("parent", "out");
  await fill("vid", "7");
  await fill("vrf", "new");
  await fill("new-vrf", "guests");
  await button("Create in the candidate").click();
  await page.waitForFunction(() => location.hash.endsWith("/interfaces/out.7"));

  begin("a tunnel is created, and its MTU edited");
  await go("#/configuration/new");
  await page.locator("input[value=tunnel]").click();
  await fill("name", "branch");
  await fill("local", "198.18.2.9");
  await fill("remote", "198.51.100.1");
  await button("Create in the candidate").click();
  await page.waitForFunction(() => location.hash.endsWith("/interfaces/branch"));
  await fill("mtu", "1400");
  await button("Save to candidate").click();
  await see("branch is saved in the candidate");
  await go("#/configuration/commit");
  await see("out.7", ".changes");
  await see("guests", ".changes");
  await button(`Commit to ${router}`).click();
  await see("Committed as number");
  const made = (await running("ietf-interfaces:interfaces/interface=branch"))["ietf-interfaces:interface"][0];
  check(made["stoa-interfaces:port-state"]?.mtu === 1400, JSON.stringify(made));

  begin("both are removed");
  for (const name of ["out.7", "branch"]) {
    await go(`#/configuration/interfaces/${name}`);
    await button(`Remove ${name}`).click();
    await see(`${name} is removed from the candidate`);
  }
  await go("#/configuration/commit");
  await button(`Commit to ${router}`).click();
  await see("Committed as number");
}

const isRunning = (pid) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

async function restart() {
  begin("a restart of the controller neither logs out nor loses an edited form");
  await go("#/configuration/interfaces/out");
  await fill("description", "typed before the restart");
  await page.evaluate(() => void (window.former = true));
  const former = Number(process.env.CONTROLLER);
  process.kill(former, "SIGKILL");
  await until(() => !isRunning(former), "the controller still runs");
  // Only the new one can answer.
  await page.waitForFunction(() => fetch("/whoami").then((it) => it.ok, () => false), { polling: 50, timeout: 60_000 });
  await page.waitForFunction(() => !document.body.innerText.includes("No response from the router"), { timeout: 60_000 });
  check(await page.evaluate(() => window.former === true), "the page was loaded again");
  check((await page.$eval("input[name=description]", (one) => one.value)) === "typed before the restart", "the form was lost");
  await button("Save to candidate").click();
  await see("out is saved in the candidate");
  await go("#/configuration/commit");
  await see("typed before the restart", ".changes");
  await button("Discard changes").click();
  await see("the candidate equals the running configuration");
}

async function tell() {
  begin("events and the log");
  await go("#/log");
  await see("went up", "[aria-label='Events']");
  await see("another address", "[aria-label='Events']");
  await see("HTTPS server is listening", "[aria-label='Log messages']");
  check(!(await text("main")).includes("argon2"), "no secret is in the log");
}

async function change() {
  begin("an address is changed by the form");
  await go("#/configuration/interfaces/out");
  const input = "[name=ipv4-address]";
  await page.waitForSelector(input);
  check((await page.$eval(input, (one) => one.value)) === "198.18.2.1/24", "the form shows the address");
  await page.locator(input).fill("198.18.2.9/24");
  await button("Save to candidate").click();
  await see("out is saved in the candidate");
  check((await addresses()).join() === "198.18.2.1", "nothing is in force before the commit");

  begin("the difference is seen, and committed");
  await go("#/configuration/commit");
  await see("198.18.2.9", ".changes");
  await page.locator(".row input").fill("another address");
  await button(`Commit to ${router}`).click();
  await see("Committed as number");
  check((await addresses()).join() === "198.18.2.9", "the address is in force");

  begin("traffic still moves");
  await go("#/interfaces/in");
  const rate = /received\s+([\d.]+) k?pkt/;
  await page.waitForFunction(
    (source) => [...document.querySelectorAll(".chart")].some((one) => Number(new RegExp(source).exec(one.innerText)?.[1]) > 0),
    {},
    rate.source,
  );
  const before = number((await text(".facts dd.mono")).replace(/[^0-9.]/g, ""));
  await page.waitForFunction(
    (old) => Number.parseFloat((document.querySelector(".facts dd.mono")?.innerText ?? "").replace(/[^0-9.]/g, "")) > old,
    {},
    before,
  );
}

async function find() {
  begin("the new route is found");
  await go("#/routes?search=198.18.2.9");
  await see("198.18.2.9/32", "[aria-label='Longest match']");
  await see("to this router", "[aria-label='Longest match']");
  await go("#/routes?search=198.18.2.0%2F24");
  await see("on the link out", "[aria-label='Routes']");
}

async function undo() {
  begin("a commit that waits is undone by a button");
  await go("#/configuration/interfaces/out");
  await fill("description", "for a minute");
  await button("Save to candidate").click();
  await see("out is saved in the candidate");
  await go("#/configuration/commit");
  await see("for a minute", ".changes");
  await page.locator(".row select").fill("60");
  await button(`Commit to ${router}`).click();
  await see("left to confirm", ".confirm");
  await button("Roll back").click();
  await page.waitForFunction(() => !document.querySelector(".confirm"));
  const data = await running("ietf-interfaces:interfaces/interface=out?content=config");
  check(data["ietf-interfaces:interface"][0].description === undefined, JSON.stringify(data));
}

async function capture() {
  begin("five frames are captured and kept");
  await go("#/capture?interface=in");
  await labelled("Maximum packets").fill("5");
  await button("Start").click();
  await page.waitForSelector("a[download]");
  await page.locator("a[download]").click();
  const file = join(folder, "stoa-in.pcapng");
  await until(() => existsSync(file), "the browser keeps no file");
}

async function graph() {
  begin("the graph is drawn with its figures");
  await go("#/graph");
  await page.waitForSelector(".picture .node.live");
  await page.waitForFunction(() =>
    [...document.querySelectorAll(".picture .node.live")].some((node) => node.textContent.includes("ip4-input") && node.textContent.includes("cyc/pkt")),
  );
  // Nodes with packets are joined.
  await page.waitForFunction(() => document.querySelectorAll(".picture .edge.live").length >= 3);
}

async function back() {
  begin("the history leads back");
  await go("#/history");
  await see("another address", ".history");
  // Newer ones may be above it: what was rolled back in between.
  const entry = (place, words) =>
    page.locator(`::-p-xpath(//ol/li[contains(., "another address")]${place}//button[normalize-space()="${words}"])`);
  await entry("", "Show changes").click();
  await see("198.18.2.9", ".changes");
  // The entry before it, which has the first user and the former address.
  await entry("/following-sibling::li[1]", "Roll back …").click();
  // Only the page of the commit has a comment: its changes are those of the candidate.
  await page.locator(".row input").fill("back");
  await see("198.18.2.1", ".changes");
  await button(`Commit to ${router}`).click();
  await see("Committed as number");
  check((await addresses()).join() === "198.18.2.1", "the former address is in force");
}

async function look() {
  begin("each page shows something, on a phone, too");
  await page.setViewport({ width: 390, height: 844, isMobile: true, hasTouch: true });
  for (const [place, words] of [
    ["", "Health"],
    ["interfaces", "198.18.1.1/24"],
    ["graph", "ethernet-input"],
    ["routes", "All routes"],
    ["neighbors", "198.18.2.2"],
    ["drops", "reason"],
    ["workers", "Worker"],
    ["capture", "Maximum packets"],
    ["configuration/routes", "Add a route"],
    ["configuration/policy/default/ipv4/100", "Change rule 100"],
    ["configuration/bfd/out/198.18.2.2", "Change BFD session"],
    ["configuration/vrrp/out/4/51", "Change virtual router 51"],
    ["configuration/new", "VLAN of a port"],
    ["configuration/json", "The whole candidate"],
    ["daemons", "Routes by protocol"],
    ["sessions", "BFD sessions"],
    ["vrrp", "virtual routers active here"],
    ["policy", "10.99.0.0/16"],
    ["rules", "Where lists decide"],
    ["flows", "Top senders"],
    ["nat", "External addresses"],
    ["log", "Events"],
    ["history", "configurations"],
  ]) {
    await go(`#/${place}`);
    await see(words, "main");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    check(wide <= 0, `${place} is ${wide} px too wide for a phone`);
  }
}

try {
  await logIn();
  await names();
  await traffic();
  await hour();
  await firewall(page, tools);
  await change();
  await create();
  await forms(page, tools);
  await find();
  await refuse(page, tools);
  await order(page, tools);
  await undo();
  await capture();
  await graph();
  await back();
  await restart();
  await tell();
  await look();
  check(complaints.length === 0, complaints.join("\n"));
  console.log(JSON.stringify({ done: true }));
} catch (error) {
  console.error(await page.evaluate(() => document.body.innerText.slice(0, 2_000)).catch(() => "nothing"));
  console.error(error.stack);
  // The cause comes last: the test that ran this shows the last lines.
  console.error(`the page reported: ${complaints.join("; ") || "nothing"}`);
  console.error(`while ${step}: ${error.message}`);
  await page.screenshot({ path: join(folder, "last.png") }).catch(() => undefined);
  process.exitCode = 1;
} finally {
  await browser.close();
}
