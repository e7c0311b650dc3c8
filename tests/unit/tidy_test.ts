/**
 * The repository polices itself: which folder may import which, which file is the door to which outside thing, how long
 * files and functions may be, and a few words that may stand nowhere. A message says what to do.
 */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../src/platform/config.ts";
import { WORKER_ARGS } from "../../src/dev/worker_supervisor.ts";
import { modulesOf, Writers } from "../support/writes.ts";
import { parseSource, type Place, readSource, type Source, sourcesIn } from "../support/source_tree.ts";

const LONGEST_FILE = 400;
const LONGEST_FUNCTION = 70;
const MOST_FILES = 22;

/** Words that name a part of the system to nobody but us; the field has others. */
const PRIVATE_WORDS = [
  ...["hall", "lane", "sight", "agenda", "crew", "seat", "roster", "estate", "heir", "vigil", "lookout", "warden"],
  ...["sayings", "spool", "fleeting", "seldom", "birth", "births", "bell", "ears", "knock", "lone", "remains"],
];

/** A folder may import itself and the folders before it. */
const READING_ORDER = [
  ["locale", "platform", "rpc", "redis", "postgres", "archive", "sandbox", "testing", "testing.ts"],
  [
    "schedule_kinds",
    "settings",
    "access",
    "nodes",
    "definitions",
    "runs",
    "alerts",
    "schedules",
    "stats",
    "bulks",
    "steps",
    "events",
    "dispatch",
  ],
  ["job_options", "sync", "actions", "client.ts"],
  ["worker", "cluster", "leader"],
  ["ops", "app", "dev", "admin", "cli", "main.ts"],
].flat();

/** What a process can be at a time. They share what is beside them, and never each other. */
const ROLES = [/^src\/worker\/worker\.ts$/, /^src\/leader\//, /^src\/cluster\/subleader/];

/** The other side of the sandbox: another process, without permissions, that loads as little as it can. */
const BODY_ENTRY = "src/sandbox/child/host.ts";

/** What only some files may touch. `body`: what runs in a body's process may as well, having nobody else to ask. */
const DOORS: { what: string; uses: RegExp; imports?: RegExp; door: RegExp; body?: true }[] = [
  {
    what: "timers, clocks and chance",
    uses: /^((globalThis\.)?(setTimeout|setInterval)|Date\.now|performance\.now|Math\.random|new Date\(\))$/,
    door: /^src\/platform\/timers\.ts$/,
    body: true,
  },
  { what: "the environment", uses: /^(Deno|process)\.env$/, door: /^src\/platform\/config\.ts$/ },
  { what: "Postgres", uses: /^$/, imports: /^postgres$/, door: /^src\/postgres\/connection\.ts$/ },
  { what: "Redis", uses: /^$/, imports: /^ioredis$/, door: /^src\/redis\// },
  { what: "HTTP servers", uses: /^Deno\.serve$/, door: /^src\/platform\/http\.ts$/ },
  { what: "pages and routes", uses: /^$/, imports: /^hono(\/|$)/, door: /^src\/admin\// },
  { what: "texts for people", uses: /^$/, imports: /^intl-messageformat$/, door: /^src\/locale\// },
  { what: "gRPC", uses: /^$/, imports: /^@grpc\//, door: /^src\/rpc\// },
  {
    what: "the exit of this process and its signals",
    uses: /^(Deno\.(exit|addSignalListener)|process\.exit)$/,
    door: /^main\.ts$/,
    body: true,
  },
  {
    what: "signals to processes",
    uses: /^(Deno|process)\.kill$/,
    door: /^src\/(sandbox\/process_table|platform\/failpoint)\.ts$/,
    body: true,
  },
];

/** Globals that Deno makes of Node's part when they are first named: with it a process takes a third longer to start. */
const OF_NODE = /^(globalThis\.)?((set|clear)(Timeout|Interval|Immediate)|process|Buffer)(\.|$)/;

/** Text that may stand nowhere, spelled here so that this file does not hold it. */
const FORBIDDEN: { what: string; sign: RegExp }[] = [
  { what: "a registry's host", sign: new RegExp(["registry\\.npmjs", "jsr\\.io", "deno\\.land/"].join("|")) },
  { what: "a path of one machine", sign: new RegExp(["/ro" + "ot/", "/ho" + "me/\\w", "/wo" + "rk/"].join("|")) },
  { what: "a mark of unfinished work", sign: new RegExp(["TO" + "DO", "FIX" + "ME", "XX" + "X"].join("|")) },
];

/** Besides what is imported: started by a path, by a task or by name. */
const ENTRIES = ["src/job.ts", "src/client.ts", "src/testing.ts"];

const ours = [...sourcesIn("src"), readSource("main.ts")];
const sources = [
  ...ours,
  ...sourcesIn("tests"),
  ...sourcesIn("jobs"),
  ...sourcesIn("examples"),
  ...sourcesIn("bench"),
  readSource("locales/generate.ts"),
];
/** Parts of src/job.ts that a body does not load. */
const PUBLIC_TYPES = ["src/durable.ts", "src/job_declaration.ts"];
/** What it loads is used by those who name it there. */
const LOADER = "src/cli/commands/load.ts";
const commands = ours.filter(({ path }) => path.startsWith("src/cli/")).map(({ text }) => text).join("\n");
const in_body = reachedFrom(BODY_ENTRY);
const writers = new Writers(modulesOf(ours));

Deno.test(`imports go one way: ${READING_ORDER.join(" <- ")}`, () => {
  refuse(ours.flatMap((file) =>
    file.imports.flatMap(({ name, line }) => {
      const reason = whyNotImport(file.path, name);
      return reason ? [`${file.path}:${line} may not import ${name}: ${reason}`] : [];
    })
  ));
});

Deno.test("no file comes back to itself by its imports", () => {
  refuse(
    circlesIn(ours).map((circle) => `${circle.join(" -> ")}: move what the first takes to where both can use it`),
  );
});

Deno.test("what is loaded into a body is little: files of the sandbox, and no package", () => {
  assert(in_body.size > 1);
  refuse(
    ours.filter(({ path }) => in_body.has(path)).flatMap((file) =>
      file.imports.filter(({ name }) => name !== "src/job.ts" && !name.startsWith("src/sandbox/"))
        .map(({ name, line }) => `${file.path}:${line} may not import ${name}: it runs in every body`)
    ),
  );
});

Deno.test("what is loaded into a body names nothing of Node's", () => {
  refuse(
    ours.filter(({ path }) => in_body.has(path)).flatMap((file) =>
      file.uses.filter(({ name }) => OF_NODE.test(name)).map(({ name, line }) =>
        `${file.path}:${line} names ${name}, which loads a part of Node into every body: take it when it is needed`
      )
    ),
  );
});

Deno.test("each outside thing has one door", () => {
  refuse(
    DOORS.flatMap(({ what, uses, imports, door, body }) =>
      ours.filter(({ path }) => !door.test(path) && !(body && in_body.has(path))).flatMap((file) =>
        [
          ...file.uses.filter(({ name }) => uses.test(name)),
          ...file.imports.filter(({ name }) => imports?.test(name)),
        ].map(({ name, line }) => `${file.path}:${line} uses ${name}: ${what} belong to ${door.source}`)
      )
    ),
  );
});

/** No acts of an operator: deliveries that become events, a sync, drills, certificates, and what sets a machine up. */
const OTHER_WRITES = /\b(takeDelivery|sync|DRILLS|rotateAuthority|audit|applySchema|runDev|readyLogin)\b/;

Deno.test("pages, routes and commands write by acts of the registry alone: what else they use only reads", () => {
  const surfaces = ours.filter(({ path }) => /^src\/(admin\/(pages|parts|args|api)|cli)\//.test(path));
  refuse(
    surfaces.flatMap(({ path }) =>
      writers.waysIn(path).filter((way) => path.startsWith("src/admin/pages/") || !OTHER_WRITES.test(way))
        .map((way) => `${path} writes: ${way}; declare it in src/actions/ and perform that`)
    ),
  );
});

Deno.test(`no file is longer than ${LONGEST_FILE} lines, no function than ${LONGEST_FUNCTION}`, () => {
  refuse(sources.flatMap((file) => [
    ...(file.lines > LONGEST_FILE ? [`${file.path} has ${file.lines} lines: split it`] : []),
    ...file.functions.filter(({ lines }) => lines > LONGEST_FUNCTION)
      .map(({ name, line, lines }) => `${file.path}:${line} has a function of ${lines} lines: split \`${name}\``),
  ]));
});

Deno.test("no type is any", () => {
  refuse(
    sources.flatMap(({ path, uses }) =>
      uses.filter(({ name }) => name === "any").map(({ line }) => `${path}:${line} uses any: name the type, or unknown`)
    ),
  );
});

Deno.test("every file is imported, or started by its path", () => {
  const used = new Set([...sources.flatMap(namesOf), ...ENTRIES]);
  refuse(
    sources.filter(({ path }) => path.startsWith("src/") || path.startsWith("tests/support/"))
      .filter(({ path }) => !used.has(path) && !isStarted(path))
      .map(({ path }) => `${path} is imported by nobody: remove it`),
  );
});

Deno.test("what a file exports is used by another one", () => {
  refuse(
    sources.filter(({ path }) => !ENTRIES.includes(path) && !isStarted(path)).flatMap((file) => {
      const users = sources.filter((one) => namesOf(one).includes(file.path));
      const texts = users.map(({ path, text }) => path === LOADER ? commands : text);
      return file.exports.flatMap(({ name: text, line }) => {
        const [, name] = /^export (?:async )?(?:function|class|const) (\w+)/.exec(text) ?? []; // types may be named beside what is used
        const used = name === undefined || texts.some((text) => new RegExp(`\\b${name}\\b`).test(text));
        return used ? [] : [`${file.path}:${line} exports ${name} for nobody`];
      });
    }),
  );
});

Deno.test("a type that is exported has a name of its own, and no name is a private metaphor", () => {
  const named = ours.flatMap(({ path, exports }) =>
    exports.flatMap(({ name: text, line }) => {
      const [, kind = "", name] = /^export (?:abstract |async )?(\w+)\*? (\w+)/.exec(text) ?? [];
      return name === undefined ? [] : [{ kind, name, where: `${path}:${line}` }];
    })
  );
  const types = named.filter(({ kind }) => ["type", "interface", "class"].includes(kind));
  const private_word = new RegExp(`(^|_)(${PRIVATE_WORDS.join("|")})(?=_|$)`);
  refuse([
    ...types.filter(({ name }, place) => types.findIndex((one) => one.name === name) !== place)
      .map(({ name, where }) => `${where} exports ${name}, which another file exports as well`),
    ...named.filter(({ name }) => private_word.test(snake(name)))
      .map(({ name, where }) => `${where} exports ${name}: take the field's word (docs/glossary.md)`),
    ...ours.filter(({ path }) => path.split(/[/.]/).some((part) => private_word.test(part)))
      .map(({ path }) => `${path} has a name of our own making: take the field's word (docs/glossary.md)`),
  ]);
});

Deno.test(`no folder holds more than ${MOST_FILES} files`, () => {
  const folders = Map.groupBy(ours, ({ path }) => path.slice(0, path.lastIndexOf("/")));
  refuse(
    [...folders].filter(([, files]) => files.length > MOST_FILES)
      .map(([folder, files]) => `${folder} holds ${files.length} files: make two rooms of it`),
  );
});

Deno.test("every export of what users import is documented", () => {
  refuse(
    ENTRIES.map(readSource).flatMap(({ path, exports }) =>
      exports.filter(({ documented }) => !documented).map(({ name, line }) => `${path}:${line} has no comment: ${name}`)
    ),
  );
});

Deno.test("files say on top what they are, and their names say something", () => {
  refuse([
    ...sources.filter(({ path, text }) => !text.startsWith(/^(jobs|examples)\//.test(path) ? "//" : "/**"))
      .map(({ path }) => `${path} has no comment on top`),
    ...sources.filter(({ path }) => /\/(utils?|helpers?|common|misc|types|index|lib)\.tsx?$/.test(path))
      .map(({ path }) => `${path} has a name that says nothing`),
    ...sources.filter(({ path }) => !/^[a-z0-9_/.]+$/.test(path)).map(({ path }) => `${path} is not in snake_case`),
  ]);
});

Deno.test("some words stand nowhere", () => {
  const others = [
    "deno.json",
    "schema.sql",
    "proto/worker.proto",
    "README.md",
    "docker-compose.yml",
    ".ci/run",
    "dandori",
  ];
  const texts = [...sources, ...others.map((path) => ({ path, text: textOf(path) }))];
  refuse(FORBIDDEN.flatMap(({ what, sign }) =>
    texts.filter(({ text }) => sign.test(text))
      .map(({ path, text }) => `${path}:${text.slice(0, text.search(sign)).split("\n").length} holds ${what}`)
  ));
});

Deno.test("a program of ours is given the same permissions wherever it is started", () => {
  const { tasks } = JSON.parse(textOf("deno.json")) as { tasks: Record<string, string> };
  for (const [name, task] of Object.entries(tasks)) {
    if (task.includes("main.ts") && name !== "worker") assert.equal(task, `deno run -A main.ts ${name}`);
  }
  const flags = WORKER_ARGS.slice(1, WORKER_ARGS.findIndex((arg) => arg.endsWith("main.ts")));
  assert(flags.includes("-A"));
  assert.equal(tasks.worker, `deno run ${flags.join(" ")} main.ts worker`);
  const script = [...textOf("dandori").matchAll(/^.*flags="(?:\$flags )?(.*)"$/gm)].map(([, some]) => some).join(" ");
  assert.deepEqual(script.split(" ").filter((flag) => flag !== "--quiet"), flags);
});

Deno.test("what deno.json exports is what it maps the names of the imports to", () => {
  const { name, exports, imports } = JSON.parse(textOf("deno.json"));
  assert.match(name, /^@dandori\/[a-z]+$/);
  assert.deepEqual(exports, {
    ...{ ".": imports.dandori, "./client": imports["dandori/client"], "./testing": imports["dandori/testing"] },
  });
  assert.deepEqual(Object.values(exports), ENTRIES.map((path) => `./${path}`));
});

Deno.test("the rules can be broken: each sees what it is for", () => {
  const bad = parseSource(
    "src/runs/bad.ts",
    `import { lead } from "../leader/leader.ts";\nfunction f(x: any) {\n  setTimeout(f, Date.now());\n  new Date();\n}\n`,
  );
  assert.deepEqual(bad.imports, [{ name: "src/leader/leader.ts", line: 1 }]);
  assert.deepEqual(bad.functions.map(({ line, lines }) => [line, lines]), [[2, 4]]);
  assert.deepEqual(bad.uses.map(({ name, line }) => `${name}:${line}`).sort(), [
    "Date.now:3",
    "any:2",
    "new Date():4",
    "setTimeout:3",
  ]);
  const importing = (path: string, ...names: string[]) => ({ path, imports: names.map((name) => ({ name, line: 1 })) });
  const files = [importing("a", "b", "c"), importing("b", "c"), importing("c", "d"), importing("d", "b")];
  assert.deepEqual(circlesIn(files), [["b", "c", "d", "b"]]);
  assert.match(whyNotImport("src/runs/bad.ts", "src/leader/leader.ts") ?? "", /comes later/);
  assert.match(whyNotImport("src/leader/leader.ts", "src/cluster/subleader.ts") ?? "", /never meet/);
  assert.match(whyNotImport("src/leader/leader.ts", "src/worker/worker.ts") ?? "", /never meet/);
  assert.equal(whyNotImport("src/worker/worker.ts", "src/runs/states.ts"), undefined);
  const page = (text: string) =>
    new Writers(modulesOf([...ours, parseSource("src/admin/pages/bad.ts", text)])).waysIn("src/admin/pages/bad.ts");
  const imports =
    `import { pauseJob } from "../../dispatch/pauses.ts";\nimport { setPaused } from "../../actions/queue_actions.ts";\n`;
  assert.equal(page(`${imports}export async function act() {\n  await pauseJob();\n}\n`).length, 1);
  assert.equal(page(`${imports}const act = async () => {\n  await setPaused();\n};\n`).length, 1);
  assert.equal(page("const act = (sql) => sql`update job set paused_at = now()`;\n").length, 1);
  assert.equal(
    page(`import { readQueue } from "../../dispatch/pauses.ts";\nconst show = () => readQueue();\n`).length,
    0,
  );
  assert.equal(
    page(`import { pauseQueue } from "../../actions/queue_actions.ts";\nconst act = () => perform(pauseQueue);\n`)
      .length,
    0,
  );
});

/** Each circle that a walk along the imports closes, once. */
function circlesIn(files: { path: string; imports: Place[] }[]): string[][] {
  const next = new Map(files.map((file) => [file.path, namesOf(file)]));
  const found: string[][] = [];
  const done = new Set<string>();
  const walk = (path: string, way: string[]): void => {
    const since = way.indexOf(path);
    if (since >= 0) found.push([...way.slice(since), path]);
    if (since >= 0 || done.has(path)) return;
    for (const name of next.get(path) ?? []) walk(name, [...way, path]);
    done.add(path);
  };
  for (const path of next.keys()) walk(path, []);
  return found;
}

function snake(name: string): string {
  return name.replace(/([a-z0-9])([A-Z])/g, "$1_$2").toLowerCase();
}

function refuse(problems: string[]): void {
  assert(problems.length === 0, `\n${problems.join("\n")}\n`);
}

function isStarted(path: string): boolean {
  return sources.some(({ text }) => text.includes(`/${path.split("/").at(-1)}", import.meta`));
}

function namesOf({ imports }: { imports: Place[] }): string[] {
  return imports.map(({ name }) => name);
}

function textOf(path: string): string {
  try {
    return Deno.readTextFileSync(`${PROJECT_DIR}/${path}`);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}

function reachedFrom(entry: string): Set<string> {
  const reached = new Set([entry]);
  for (const path of reached) {
    const file: Source | undefined = ours.find((one) => one.path === path);
    for (const name of file ? namesOf(file) : []) if (name.startsWith("src/sandbox/")) reached.add(name);
  }
  return reached;
}

function whyNotImport(from: string, to: string): string | undefined {
  if (PUBLIC_TYPES.includes(to) && [...PUBLIC_TYPES, "src/job.ts"].includes(from)) return undefined;
  if (!to.startsWith("src/") || to === "src/job.ts") {
    return from === "src/job.ts" ? "job files load it alone" : undefined;
  }
  const [role, other] = [from, to].map((path) => ROLES.findIndex((sign) => sign.test(path)));
  if (role !== other && role !== -1 && other !== -1) return "roles never meet";
  const [here, there] = [placeOf(from), placeOf(to)];
  if (here === there) return undefined;
  const [row, imported_row] = [rowOf(here), rowOf(there)];
  if (row < 0 || imported_row < 0) return `${row < 0 ? here : there} is not in the reading order`;
  return imported_row < row ? undefined : "it comes later in the reading order";
}

function placeOf(path: string): string {
  return path.split("/")[path.startsWith("src/") ? 1 : 0] as string;
}

function rowOf(place: string): number {
  return READING_ORDER.indexOf(place);
}
