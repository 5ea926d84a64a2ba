// Takes pictures of pages in light and dark; web_pages.py calls it.
// Arguments: a folder with node_modules, a folder for the pictures, files of HTML.
import path from "node:path";
import {pathToFileURL} from "node:url";
import {openBrowser} from "../integration/open_browser.mjs";

const [modules, folder, ...files] = process.argv.slice(2);
const browser = await openBrowser(modules);
for (const file of files) {
  const name = path.basename(file, ".html");
  for (const scheme of ["light", "dark"]) {
    const page = await browser.newPage();
    // A page in a file has no server to renew itself from.
    await page.setJavaScriptEnabled(false);
    await page.setViewport({width: 1100, height: name.startsWith("ui") ? 1000 : 700});
    await page.emulateMediaFeatures([{name: "prefers-color-scheme", value: scheme}]);
    await page.goto(pathToFileURL(file).href);
    await page.screenshot({path: `${folder}/${name}-${scheme}.webp`, type: "webp", quality: 70,
      fullPage: !name.startsWith("ui")});
    await page.close();
  }
}
await browser.close();
