// Opens a page in a headless Chromium and prints what it finds as JSON; test_browser_pages.py reads it.
// Arguments: open_browser.mjs's folder, a folder for pictures, URLs.
import {openBrowser} from "./open_browser.mjs";

const [modules, pictures, ...urls] = process.argv.slice(2);
const browser = await openBrowser(modules);
const found = [];
for (const [number, url] of urls.entries()) {
  for (const [width, scheme] of [[1280, "light"], [390, "dark"], [768, "light"]]) {
    const page = await browser.newPage();
    const complaints = [];
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("console", (message) => complaints.push(message.text()));
    page.on("requestfailed", (request) => complaints.push(`failed: ${request.url()}`));
    const requested = new Set();
    page.on("request", (request) => requested.add(new URL(request.url()).origin));
    await page.setViewport({width, height: 800});
    await page.emulateMediaFeatures([{name: "prefers-color-scheme", value: scheme}]);
    await page.goto(url);
    await page.evaluate(() => { window.isSamePage = true; });
    await page.keyboard.press("Tab");
    const skip = await page.evaluate(() => document.activeElement.textContent);
    const before = await page.evaluate(() => document.querySelector("main").textContent);
    const look = () => page.evaluate(() => ({
      overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      hidden: [...document.querySelectorAll(".wide")].filter(
        (one) => one.scrollWidth > one.clientWidth).length,
      background: getComputedStyle(document.body).backgroundColor,
      localTimes: document.querySelectorAll("time[title]").length,
      times: document.querySelectorAll("time").length,
      belowLogs: Math.max(0, ...[...document.querySelectorAll(".log")].map(
        (log) => log.scrollHeight - log.scrollTop - log.clientHeight)),
      isSamePage: window.isSamePage === true,
    }));
    await page.screenshot({path: `${pictures}/${number}-${width}-${scheme}.png`, fullPage: true});
    await page.waitForFunction(
      (text) => document.querySelector("main").textContent !== text, {timeout: 60000}, before);
    const shown = await look();
    await page.click("#pause");
    const pause = await page.$eval("#pause", (button) => button.textContent);
    found.push({url, width, scheme, complaints, requested: [...requested], skip, pause, ...shown});
    await page.close();
  }
}
const plain = await browser.newPage();
await plain.setJavaScriptEnabled(false);
await plain.goto(urls[0]);
const withoutScripts = (await plain.$eval("main", (main) => main.textContent)).length;
await browser.close();
console.log(JSON.stringify({pages: found, withoutScripts}));
