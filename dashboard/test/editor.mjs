// The editor of JSON in the browser, by the clipboard of the test.

/** Selects all and copies ("copy"), or replaces it ("paste"). Returns the text that was copied. */
export async function editor(page, work, given) {
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
