// A headless Chromium from a folder with node_modules (puppeteer-core, @sparticuz/chromium).
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

export async function openBrowser(modules) {
  const require = createRequire(`${modules}/`);
  const load = async (name) => (await import(pathToFileURL(require.resolve(name)))).default;
  const puppeteer = await load("puppeteer-core");
  const chromium = await load("@sparticuz/chromium");
  return puppeteer.launch({
    args: [...chromium.args, "--no-sandbox"],
    executablePath: await chromium.executablePath(),
    headless: "shell",
  });
}
