// The editor of JSON in the browser, by the clipboard of the test: errors at their places, and the order of lists.

/** Selects all and copies ("copy"), or replaces it ("paste"). Returns the text that was copied. */
async function editor(page, work, given) {
  await page.waitForFunction(() => document.querySelector(".code")?.shadowRoot?.querySelector(".cm-content"));
  await page.evaluate(() => document.querySelector(".code").shadowRoot.querySelector(".cm-content").focus());
  await page.keyboard.down("Control");
  await page.keyboard.press("a");
  await page.keyboard.up("Control");
  return page.evaluate(
    (kind, words) => {
      const clipboardData = new DataTransfer();
      if (words) clipboardData.setData("text/plain", words);
      const content = document.querySelector(".code").shadowRoot.querySelector(".cm-content");
      content.dispatchEvent(new ClipboardEvent(kind, { clipboardData, bubbles: true, cancelable: true }));
      return clipboardData.getData("text/plain");
    },
    work,
    given,
  );
}

/** What is wrong is marked at its place. */
export async function refuse(page, { begin, see, go, button, text, check }) {
  const edit = (words) => editor(page, "paste", words);
  begin("a wrong value is refused, at its line");
  await go("#/configuration/json");
  const wrong = (await editor(page, "copy")).replace('"prefix-length": 24', '"prefix-length": 99');
  await edit(wrong);
  await button("Save to candidate").click();
  await page.waitForSelector(".faults .where button");
  check((await text(".faults .where")).includes("prefix-length"), await text(".faults"));
  check(/line \d+, column \d+/.test(await text(".faults .where button")), "the place is named");
  const marked = (words) =>
    page.waitForFunction((it) => document.querySelector(".code").shadowRoot.querySelector(".cm-lintRange-error")?.textContent.includes(it), {}, words);
  await page.locator(".faults .where button").click();
  await marked("99");
  const lines = () => page.evaluate(() => document.querySelector(".code").shadowRoot.querySelectorAll(".cm-lineNumbers .cm-gutterElement").length);
  check((await lines()) > 5, "lines have numbers");

  begin("a text that is no JSON is marked, too");
  await edit(wrong.replace('"prefix-length": 99', '"prefix-length" 99'));
  await see("Not valid JSON", ".wrong");
  // The editor draws the lines in view alone.
  const line = Number(/line (\d+)/.exec(await text(".wrong"))[1]);
  await page.evaluate((at) => {
    const root = document.querySelector(".code").shadowRoot;
    root.querySelector(".cm-scroller").scrollTop = (at - 5) * root.querySelector(".cm-line").getBoundingClientRect().height;
  }, line);
  await marked("9");
  await button("Reload").click();
  // The editor has the text of the candidate.
  await page.waitForSelector("button.main[disabled]");
}

/** A list that is ordered-by user keeps the order of the text. */
export async function order(page, { begin, see, go, button, text, check }) {
  begin("rules keep the entered order");
  await go("#/configuration/json");
  const name = "ietf-netconf-acm:nacm";
  const put = async (rules) => {
    const whole = JSON.parse(await editor(page, "copy"));
    const list = rules.map((rule) => ({ name: rule, "module-name": "*", action: "deny" }));
    await editor(page, "paste", JSON.stringify({ ...whole, [name]: { "rule-list": [{ name: "ops", rule: list }] } }, null, 2));
    await page.waitForFunction(() => !document.body.innerText.includes("Saved in the candidate"));
    await button("Save to candidate").click();
    await see("Saved in the candidate");
    const url = `/restconf/ds/ietf-datastores:candidate/${name}/rule-list=ops`;
    const data = await page.evaluate(async (at) => (await fetch(at, { headers: { "x-stoa-request": "1" } })).json(), url);
    const made = data["ietf-netconf-acm:rule-list"][0].rule.map((rule) => rule.name);
    const shown = JSON.parse(await editor(page, "copy"))[name]["rule-list"][0].rule.map((rule) => rule.name);
    check(made.join() === rules.join() && shown.join() === rules.join(), `${rules} became ${made}, and ${shown} is shown`);
  };
  await put(["b", "c"]);
  await put(["a", "b", "c"]);
  await put(["c", "b", "a"]);
  check(!(await text("main")).includes("another order"), "the router keeps the entered order");
  await go("#/configuration/commit");
  await button("Discard changes").click();
  await see("the candidate equals the running configuration");
}
