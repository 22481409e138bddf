// Policy rules, BFD sessions and virtual routers by their forms: created, refused at the field, committed, removed.

/** What the forms made, as the router has it. */
const made = async (running) => ({
  rule: (await running("ietf-routing:routing/stoa-policy:policy/rule=default,ipv4,210?content=config"))["stoa-policy:rule"]?.[0],
  session: (await running("ietf-interfaces:interfaces/interface=out/stoa-bfd:bfd/session=198.18.2.3?content=config"))["stoa-bfd:session"]?.[0],
  router: (await running("ietf-interfaces:interfaces/interface=in/ietf-ip:ipv4/ietf-vrrp:vrrp/vrrp-instance=52?content=config"))["ietf-vrrp:vrrp-instance"]?.[0],
});

/** An operator at the forms, with the tools of browser.mjs. */
export async function forms(page, { begin, see, go, fill, button, running, check, router }) {
  const commit = async () => {
    await go("#/configuration/commit");
    await button(`Commit to ${router}`).click();
  };
  /** Waits until the error is at the field, and returns it. */
  const errorAt = async (name) => {
    await page.waitForSelector(`[name=${name}][aria-invalid=true]`);
    return page.$eval(`[name=${name}]`, (one) => document.getElementById(one.getAttribute("aria-describedby")).innerText);
  };

  begin("a policy rule is created by the form; what the router refuses is at its field");
  await go("#/configuration/policy/new");
  await fill("source", "10.1.0.0/16");
  await fill("protocol", "udp");
  await fill("destination-port", "53");
  await fill("action", "prohibit");
  await fill("description", "x".repeat(256));
  await button("Create in the candidate").click();
  check((await errorAt("description")).includes("too long"), await errorAt("description"));
  await fill("description", "no names from there");
  await fill("priority", "210");
  await button("Create in the candidate").click();
  await see("rule 210 (IPv4, VRF default) is saved in the candidate");

  begin("rules change places");
  await page.locator('button[aria-label="Earlier: rule 210"]').click();
  await see("comes earlier in the candidate");
  await page.waitForFunction(() => document.querySelector("tbody tr")?.innerText.includes("no names from there"));
  await page.locator('button[aria-label="Later: rule 100"]').click();
  await see("comes later in the candidate");

  begin("a BFD session is created by the form");
  await go("#/configuration/bfd/new");
  await fill("interface", "out");
  await fill("peer", "198.18.2.3");
  await fill("transmit", "50.5");
  await fill("multiplier", "5");
  await button("Create in the candidate").click();
  await see("BFD session with 198.18.2.3 on out is saved in the candidate");

  begin("a virtual router is created by the form; what a commit refuses is at its field");
  await go("#/configuration/vrrp/new");
  await fill("interface", "in");
  await fill("vrid", "52");
  await fill("address", "203.0.113.1");
  await fill("interval", "0.5");
  await button("Track an interface").click();
  await fill("tracked-interface", "out");
  await button("Track a network").click();
  await fill("tracked-network", "198.18.2.0/24");
  await button("Create in the candidate").click();
  await see("virtual router 52 for IPv4 on in is saved in the candidate");
  await commit();
  await see("203.0.113.1 is in no subnet", ".faults");
  await page.locator(".faults a").click();
  await page.waitForFunction(() => location.hash.endsWith("/vrrp/in/4/52"));
  await see("203.0.113.1 is in no subnet", "fieldset .wrong");
  await fill("address", "198.18.1.254");
  await button("Save to candidate").click();
  await see("virtual router 52 for IPv4 on in is saved in the candidate");
  await commit();
  await see("Committed as number");
  const { rule, session, router: instance } = await made(running);
  check(rule?.refuse === "prohibit" && rule.match["destination-port"]["lower-port"] === 53 && rule.match.protocol === 17, JSON.stringify(rule));
  check(session?.["desired-min-tx-interval"] === 50_500 && session["local-multiplier"] === 5, JSON.stringify(session));
  check(instance?.["advertise-interval-centi-sec"] === 50 && instance.track.interfaces.interface[0].interface === "out", JSON.stringify(instance));
  check(instance.track.networks.network[0].prefix === "198.18.2.0/24", JSON.stringify(instance));

  begin("all three are removed by their forms");
  for (const [place, words] of [
    ["policy/default/ipv4/210", "rule 210"],
    ["bfd/out/198.18.2.3", "198.18.2.3"],
    ["vrrp/in/4/52", "virtual router 52"],
  ]) {
    await go(`#/configuration/${place}`);
    await button(`Remove ${words}`).click();
    await see("is removed from the candidate");
  }
  await commit();
  await see("Committed as number");
  const left = await made(running);
  check(!left.rule && !left.session && !left.router, JSON.stringify(left));
}
