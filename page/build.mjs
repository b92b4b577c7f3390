// Bundles the page: one script, one style sheet, an index.html and a manifest.json that names them.
// Called by build.py, which says where to; `--watch` is for development.
import { build, context } from "esbuild";
import { marked } from "marked";
import { gfmHeadingId } from "marked-gfm-heading-id";
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const [out = join(here, "dist"), sources = ""] = process.argv.slice(2).filter((one) => !one.startsWith("--"));

// Headings can be gone to from a link: `guide-` keeps them apart from the page's own names.
marked.use(gfmHeadingId({ prefix: "guide-" }));
const markdown = {
  name: "markdown",
  setup: (one) => one.onLoad({ filter: /\.md$/ }, ({ path }) => ({ contents: marked.parse(readFileSync(path, "utf8")), loader: "text" })),
};

const options = {
  absWorkingDir: here,
  entryPoints: { page: "src/main.tsx" },
  outdir: join(out, "assets"),
  entryNames: "[name]-[hash]",
  assetNames: "[name]-[hash]",
  bundle: true,
  minify: true,
  // A report holds the script inline and is opened from a file: modules are refused there.
  format: "iife",
  target: ["es2022"],
  charset: "utf8",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "linked",
  plugins: [markdown],
  metafile: true,
  logLevel: "warning",
};

/** The licences of the packages that are in the bundle: they ask to travel with it. */
function licences(inputs) {
  const packages = new Set();
  for (const input of Object.keys(inputs)) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found) packages.add(found[1]);
  }
  return [...packages].sort().map((name) => {
    const folder = join(here, "node_modules", name);
    const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return `${name} ${version} (${license})\n\n${file ? readFileSync(join(folder, file), "utf8") : ""}`;
  });
}

function finish(result) {
  const outputs = Object.keys(result.metafile.outputs).map((one) => basename(one));
  const script = `assets/${outputs.find((one) => one.endsWith(".js"))}`;
  const style = `assets/${outputs.find((one) => one.endsWith(".css"))}`;
  writeFileSync(join(out, "assets", "licenses.txt"), licences(result.metafile.inputs).join(`\n${"-".repeat(80)}\n`));
  copyFileSync(join(here, "src", "icon.svg"), join(out, "assets", "icon.svg"));
  const html = readFileSync(join(here, "src", "index.html"), "utf8");
  writeFileSync(join(out, "index.html"), html.replace("{style}", style).replace("{script}", script));
  writeFileSync(join(out, "manifest.json"), `${JSON.stringify({ script, style, sources }, null, 2)}\n`);
}

function sizes() {
  for (const name of readdirSync(join(out, "assets"))) {
    console.log(`${name} ${(readFileSync(join(out, "assets", name)).length / 1000).toFixed(1)} kB`);
  }
}

if (existsSync(out)) rmSync(out, { recursive: true });
mkdirSync(join(out, "assets"), { recursive: true });
if (process.argv.includes("--watch")) {
  const ending = { name: "finish", setup: (one) => one.onEnd((result) => result.errors.length || finish(result)) };
  await (await context({ ...options, entryNames: "[name]", sourcemap: "inline", plugins: [markdown, ending] })).watch();
} else {
  finish(await build(options));
  sizes();
}
