/**
 * What a job file may ask for, and what becomes of it: Deno's flags for its process, and, when a body asked for more
 * than it was granted, the line that would grant it. Nothing is granted that is not named.
 *
 * Deno's permissions limit mistakes. A body with `unsafe.run` or `unsafe.ffi` can do whatever the worker's user can.
 */
import { z } from "zod";
import type { Permissions } from "../job.ts";
import { namesOf, resolvePath } from "../platform/paths.ts";
import { isRecord } from "../platform/shown.ts";

const UNSAFE_LISTS = ["run", "ffi"] as const;
const KEYS = ["net", "read", "write", "env", "sys", "import", "call", "unsafe"];
/** Variables that would steer the body's own process. */
const STEERING = /^(LD_|DYLD_|DENO_|NODE_OPTIONS$|NODE_CHANNEL_)/;

/** A list of one kind. `problems`: sentences that name it. */
function granted<List>({ title, about }: { title: string; about: string }, problems: (list: unknown) => string[]) {
  const list = z.custom<List>().superRefine((value, context) => {
    for (const message of problems(value)) context.addIssue({ code: "custom", message });
  });
  return list.meta({ title }).optional().describe(about);
}

const list = (kind: string, about: string, problems: (entries: string[]) => string[] = () => []) =>
  granted<readonly string[] | true>({ title: "list, or `true` for all", about }, (value) => [
    ...problemsInList(value, `permissions.${kind}`, true),
    ...problems(texts(value)),
  ]);
const named = (kind: string, about: string, problems: (entries: string[]) => string[] = () => []) =>
  granted<readonly string[]>({ title: "list", about }, (value) => [
    ...problemsInList(value, `permissions.${kind}`, false),
    ...problems(texts(value)),
  ]);

const unsafe = z.strictObject({
  run: list("unsafe.run", "Programs to run: these can do whatever the worker's user can."),
  ffi: list("unsafe.ffi", "Native libraries to load: these can do whatever the worker's user can."),
}, {
  error: (issue) =>
    issue.code === "unrecognized_keys"
      ? unknownKinds(issue.keys as string[], "permissions.unsafe", UNSAFE_LISTS)
      : 'permissions.unsafe must be an object such as { run: ["ffmpeg"] }',
});

/** `permissions` of a job file; its issues are sentences that name the key. */
export const permissionsSchema = z.strictObject({
  net: list("net", 'Hosts to connect to, `"host"` or `"host:port"`.', problemsInHosts),
  read: list("read", "Paths to read; relative ones are below the project's folder."),
  write: list("write", "Paths to write; the body's own `tempDir` needs none."),
  env: named("env", "Environment variables of the worker that are handed to the body.", problemsInVariables),
  sys: list("sys", 'Kinds of system information, such as `"hostname"`.'),
  import: named("import", "Hosts to import code from at run time."),
  call: list(
    "call",
    'Jobs that the body may `call` or `start`: names, or `"mail_*"` for all that begin so.',
    problemsInJobs,
  ),
  unsafe: unsafe.optional(),
}, {
  error: (issue) =>
    issue.code === "unrecognized_keys"
      ? unknownKinds(issue.keys as string[], "permissions", KEYS)
      : 'permissions must be an object such as { net: ["example.com:443"] }',
});

function unknownKinds(keys: string[], name: string, known: readonly string[]): string {
  return keys.map((key) =>
    name === "permissions" && (key === "run" || key === "ffi")
      ? `permissions.${key} opens the sandbox and so stands under unsafe: permissions: { unsafe: { ${key}: ... } }`
      : `${name}.${key} is unknown; known are ${known.join(", ")}`
  ).join("; ");
}

/** Every way in which `permissions` of a job file is not what it has to be. */
export function problemsInPermissions(permissions: unknown): string[] {
  return permissionsSchema.safeParse(permissions).error?.issues.map(({ message }) => message) ?? [];
}

function problemsInList(list: unknown, name: string, all_allowed: boolean): string[] {
  if (list === undefined || (all_allowed && list === true)) return [];
  const or_all = all_allowed ? ", or true for all" : "";
  if (!Array.isArray(list)) {
    return [`${name} must be a list of texts${or_all}: current value is ${JSON.stringify(list)}`];
  }
  return list.filter((entry) => typeof entry !== "string" || entry.trim() === "" || /[,\0\n]/.test(entry))
    .map((entry) => `${name} holds ${JSON.stringify(entry)}; give a text that is not empty and has no comma`);
}

function problemsInVariables(names: string[]): string[] {
  return names.flatMap((name) => {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      return [`permissions.env holds "${name}"; give whole names of variables such as "API_TOKEN"`];
    }
    return STEERING.test(name)
      ? [`permissions.env holds "${name}", which steers the body's own process; give it another name`]
      : [];
  });
}

function problemsInJobs(names: string[]): string[] {
  return names.filter((name) => !/^([a-z0-9][a-z0-9_.-]{0,63}\*?|\*)$/.test(name))
    .map((name) =>
      `permissions.call holds "${name}"; give names of jobs such as "resize", or "mail_*" for all that begin so`
    );
}

/** Whether a body may start runs of this job. */
export function mayCall({ call = [] }: Permissions, job_name: string): boolean {
  return call === true ||
    call.some((name) => isPattern(name) ? job_name.startsWith(name.slice(0, -1)) : name === job_name);
}

/** Of `permissions.call`: a text that names all jobs that begin so. */
export function isPattern(name: string): boolean {
  return name.endsWith("*");
}

function problemsInHosts(hosts: string[]): string[] {
  return hosts.filter((host) =>
    /^[a-z][a-z+.-]*:\/\//i.test(host) || host.includes("/") && !host.startsWith("unix:") && !/\/\d+$/.test(host)
  ).map((host) => `permissions.net holds "${host}"; give "host" or "host:port", without scheme and path`);
}

export interface PermissionPaths {
  /** What relative paths are below. */
  project_dir: string;
  /** The body's own folder, readable and writable to it. */
  temp_dir: string | undefined;
  /** Files and folders that no body may open, whatever it was granted; they must not be above `temp_dir`. */
  secret_paths?: readonly string[];
}

/** Deno's flags that grant exactly this. */
export function permissionFlags(permissions: Permissions, at: PermissionPaths): string[] {
  const flags: string[] = [];
  const grant = (flag: string, list: readonly string[] | true | undefined) => {
    if (list === true) flags.push(`--allow-${flag}`);
    else if (list && list.length > 0) flags.push(`--allow-${flag}=${list.join(",")}`);
  };
  const own = at.temp_dir === undefined ? [] : [at.temp_dir];
  const paths = (list: readonly string[] | true | undefined) =>
    list === true ? true : [...own, ...(list ?? []).map((path) => resolvePath(at.project_dir, path))];
  grant("read", paths(permissions.read));
  grant("write", paths(permissions.write));
  grant("net", permissions.net);
  grant("env", permissions.env);
  grant("sys", permissions.sys);
  grant("run", permissions.unsafe?.run);
  grant("ffi", permissions.unsafe?.ffi);
  grant("import", permissions.import);
  if (!permissions.import?.length) flags.push("--deny-import");
  // Deno compares what is asked for as it is written, and follows links only then.
  const secrets = (at.secret_paths ?? []).flatMap((path) => namesOf(resolvePath(at.project_dir, path)));
  if (secrets.length > 0) flags.push(`--deny-read=${secrets.join(",")}`, `--deny-write=${secrets.join(",")}`);
  return flags;
}

/** Kinds held without limits, as the body's process checks them for itself. */
export function wholeKinds(permissions: Permissions): string[] {
  const all = { ...permissions, run: permissions.unsafe?.run, ffi: permissions.unsafe?.ffi };
  return ["net", "read", "write", "sys", "run", "ffi"].filter((kind) => all[kind as "net"] === true);
}

/** The variables of `env` that a body is handed. */
export function grantedEnv(permissions: Permissions, env: Record<string, string>): Record<string, string> {
  const names = (permissions.env ?? []).filter((name) => Object.hasOwn(env, name) && !STEERING.test(name));
  return Object.fromEntries(names.map((name) => [name, env[name] as string]));
}

/** Whether the body can start processes of its own, or do things that Deno does not see. */
export function isUnsafe(permissions: Permissions): boolean {
  const { unsafe } = permissions;
  return unsafe !== undefined && (isNamed(unsafe.run) || isNamed(unsafe.ffi));
}

function isNamed(list: true | readonly string[] | undefined): boolean {
  return list === true || (list?.length ?? 0) > 0;
}

/** One text for one set of permissions, whatever their order: part of the key of a spare process. */
export function permissionsKey(permissions: Permissions): string {
  const sorted = (list: unknown) => Array.isArray(list) ? [...list].sort() : list;
  const { unsafe, call: _, ...rest } = permissions; // which jobs it may start is no matter of its process
  const flat: [string, unknown][] = [...Object.entries(rest), ...Object.entries(unsafe ?? {})];
  return JSON.stringify(flat.map(([kind, list]) => [kind, sorted(list)]).sort());
}

/**
 * The line for the job file after a denial, from Deno's sentence and what the job has already:
 * `permissions: { net: ["example.com:443"] }`. Undefined when the sentence names nothing that a job file can be granted.
 */
export function lineThatGrants(denied: string, permissions: Permissions, project_dir: string): string | undefined {
  const [, kind, target] = /^Requires (\w+) access(?: to (?:"(.*?)"|<\w+>))?(?:,|$)/s.exec(denied) ?? [];
  if (!kind) return undefined;
  let wanted = kind === "read" || kind === "write" ? belowProject(target, project_dir) : target;
  const grown = structuredClone(permissions) as { [kind: string]: unknown; unsafe?: Record<string, unknown> };
  const holder = kind === "run" || kind === "ffi" ? grown.unsafe ??= {} : grown;
  if (wanted === undefined && (kind === "env" || kind === "import")) {
    wanted = kind === "env" ? "EACH_VARIABLE_BY_NAME" : "HOST"; // there is no "all" of these
  }
  const has = texts(holder[kind]);
  if (holder[kind] === true || (wanted !== undefined && has.includes(wanted))) return undefined; // kept back on purpose
  holder[kind] = wanted === undefined ? true : [...has, wanted];
  return problemsInPermissions(grown).length > 0 ? undefined : `permissions: ${literal(grown)}`; // Deno asks for all of /proc, say
}

function belowProject(path: string | undefined, project_dir: string): string | undefined {
  return path?.startsWith(`${project_dir.replace(/\/$/, "")}/`)
    ? path.slice(project_dir.replace(/\/$/, "").length + 1)
    : path;
}

/** As somebody would write it in a TypeScript file. */
function literal(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (!isRecord(value)) return JSON.stringify(value);
  const fields = Object.entries(value).filter(([, inner]) => inner !== undefined);
  return `{ ${fields.map(([key, inner]) => `${key}: ${literal(inner)}`).join(", ")} }`;
}

function texts(list: unknown): string[] {
  return Array.isArray(list) ? list.filter((entry): entry is string => typeof entry === "string") : [];
}
