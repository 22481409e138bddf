// A user at the portal, in headless Chromium: node test/login.mjs SITE PORTAL FOLDER
// SITE is a web server behind the router, PORTAL the address of the portal. FOLDER gets pictures of the pages.
// CHROMIUM names the browser. Ends with a line of JSON, or with status 1 and a picture of what was seen last.
import { join } from "node:path";
import puppeteer from "puppeteer-core";

const [, , site, portal, folder] = process.argv;
const PATIENCE_MS = 20_000;

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  acceptInsecureCerts: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server"],
  protocolTimeout: 60_000,
});
const page = await browser.newPage();
page.setDefaultTimeout(PATIENCE_MS);
await page.setViewport({ width: 480, height: 640, deviceScaleFactor: 2 });
const complaints = [];
page.on("pageerror", (error) => complaints.push(String(error)));
page.on("console", (message) => {
  if (message.type() === "error" && !message.text().includes("Failed to load resource")) complaints.push(message.text());
});

let step = "";
const begin = (words) => {
  step = words;
  console.log(words);
};
const check = (is, words) => {
  if (!is) throw new Error(words);
};
const see = (words) => page.waitForFunction((expected) => document.body?.innerText.includes(expected), {}, words);
const picture = async (name) => {
  for (const scheme of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.screenshot({ path: join(folder, `${name}-${scheme}.png`) });
  }
};
const submit = (words) =>
  Promise.all([page.waitForNavigation(), page.locator(`::-p-xpath(//button[normalize-space()="${words}"])`).click()]);
const logIn = async (user, password) => {
  await page.locator("#user").fill(user);
  await page.locator("#password").fill(password);
  await submit("Log in");
};

try {
  begin("any page leads to the portal");
  await page.goto(site);
  await see("Log in to use this network.");
  check(page.url() === portal, page.url());
  check((await page.$$("script")).length === 0, "the page has a script");
  await picture("portal");

  begin("a wrong password");
  await logIn("ann", "wrong horse");
  await see("Wrong user or password.");
  await picture("portal-wrong");

  begin("the right one");
  await logIn("ann", "correct horse");
  await see("You are logged in.");
  check(page.url() === portal, page.url());
  await picture("portal-status");

  begin("the site itself");
  await page.goto(`${site}after`);
  await see("the site");

  begin("log out");
  await page.goto(portal);
  await submit("Log out");
  await see("Log in to use this network.");
  check(complaints.length === 0, complaints.join("\n"));
  console.log(JSON.stringify({ done: true }));
} catch (error) {
  await page.screenshot({ path: join(folder, "failed.png") }).catch(() => {});
  console.error(`${step}: ${error.stack}\n${page.url()}\n${await page.evaluate(() => document.body?.innerText).catch(() => "")}`);
  process.exitCode = 1;
} finally {
  await browser.close();
}
