// Loads each URL several times in a new page of a headless Chromium; prints a JSON list of the times in ms.
// Arguments: open_browser.mjs's folder, how many times, URLs.
import {openBrowser} from "../integration/open_browser.mjs";

const [modules, times, ...urls] = process.argv.slice(2);
const browser = await openBrowser(modules);
const found = urls.map(() => []);
for (let round = 0; round < Number(times); round += 1) {
  for (const [number, url] of urls.entries()) {
    const page = await browser.newPage();
    await page.setViewport({width: 1280, height: 800});
    await page.goto(url, {waitUntil: "load"});
    // What the reader waits for ends with the first frame after the load.
    found[number].push(await page.evaluate(() => new Promise((done) => {
      requestAnimationFrame(() => setTimeout(() => done(performance.now())));
    })));
    await page.close();
  }
}
await browser.close();
console.log(JSON.stringify(found));
