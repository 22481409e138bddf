// Bundles the page into dist/: hashed names, compressed, with a list that crates/northbound/build.rs reads.
// With --tests it bundles the tests into dist-test/ instead.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

/** Bytes of the files that the first load takes, compressed. */
const LIMIT = 200_000;
/** Bytes of all files, with those that are loaded when they are first shown. */
const LIMIT_OF_ALL = 350_000;

const shared = {
  bundle: true,
  format: "esm",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
};

if (process.argv.includes("--tests")) {
  rmSync("dist-test", { recursive: true, force: true });
  const entryPoints = readdirSync("test").filter((name) => name.endsWith(".test.ts"));
  await build({
    ...shared,
    entryPoints: entryPoints.map((name) => join("test", name)),
    outdir: "dist-test",
    outExtension: { ".js": ".mjs" },
    platform: "node",
    target: "node18",
  });
} else {
  rmSync("dist", { recursive: true, force: true });
  mkdirSync("dist");
  const { outputFiles } = await build({
    ...shared,
    entryPoints: { app: "src/main.tsx" },
    outdir: "dist",
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    splitting: true,
    minify: true,
    target: "es2020",
    legalComments: "none",
    write: false,
  });
  const files = outputFiles.map((file) => ({ name: basename(file.path), content: file.contents }));
  const icon = readFileSync("src/icon.svg");
  const digest = (content) => createHash("sha256").update(content).digest("hex").slice(0, 16);
  files.push({ name: `icon-${digest(icon).slice(0, 8)}.svg`, content: icon });
  // Others are parts that the script loads later.
  const isFirst = (name) => !name.endsWith(".js") || name.startsWith("app-");
  const named = (ending) => files.find((file) => file.name.endsWith(ending) && isFirst(file.name)).name;
  const page = readFileSync("src/index.html", "utf8")
    .replace("%STYLE%", `/assets/${named(".css")}`)
    .replace("%SCRIPT%", `/assets/${named(".js")}`)
    .replace("%ICON%", `/assets/${named(".svg")}`);
  files.unshift({ name: "index.html", content: page });

  const kinds = {
    html: "text/html; charset=utf-8",
    js: "text/javascript; charset=utf-8",
    css: "text/css; charset=utf-8",
    svg: "image/svg+xml",
  };
  let [first, total] = [0, 0];
  const list = files.map(({ name, content }) => {
    const packed = gzipSync(content, { level: 9 });
    total += packed.length;
    if (isFirst(name)) first += packed.length;
    writeFileSync(join("dist", `${name}.gz`), packed);
    const path = name === "index.html" ? "/" : `/assets/${name}`;
    return [path, `${name}.gz`, kinds[name.split(".").pop()], digest(content)].join("\t");
  });
  writeFileSync(join("dist", "files.txt"), `${list.join("\n")}\n`);
  console.error(
    `build-dashboard: ${files.length} files, compressed ${first} bytes first (${LIMIT} at most), ${total} in total (${LIMIT_OF_ALL} at most)`,
  );
  if (first > LIMIT || total > LIMIT_OF_ALL) {
    process.exit(1);
  }
}
