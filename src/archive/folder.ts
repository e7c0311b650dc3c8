/**
 * An archive in a folder. It must be the same one on every machine that may lead or serves the admin page: a network file system, or one
 * machine. The folder itself is never made here: a mount that is missing shall be an error, and not a folder on one machine's own disk.
 */
import { within } from "../platform/timers.ts";
import { toFileUrl } from "../platform/paths.ts";
import { messageOf } from "../platform/text.ts";
import { type Archive, ArchiveError } from "./archive.ts";

/** A network file system that hangs gives no error by itself. */
const PUT_MS = 60_000;
const READ_MS = 10_000;

export class Folder implements Archive {
  readonly place: string;
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
    this.place = toFileUrl(path).href.replace(/\/$/, "");
  }

  /** Under another name until all of it is on the disk. */
  async put(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    await this.#told(PUT_MS, `write ${this.place}/${name}`, async () => {
      const folder = `${this.#path}/${name.slice(0, name.lastIndexOf("/"))}`;
      await this.#mustBeThere();
      await Deno.mkdir(folder).catch((error) => {
        if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
      });
      const draft = `${this.#path}/${name}.new`;
      try {
        await written(draft, bytes);
        await Deno.rename(draft, `${this.#path}/${name}`);
      } catch (error) {
        await Deno.remove(draft).catch(() => undefined); // each try has a name of its own: on a full disk they would only add up
        throw error;
      }
      await synced(folder);
      await synced(this.#path);
    });
  }

  async read(name: string, { first, last }: { first: number; last: number }): Promise<Uint8Array<ArrayBuffer>> {
    return await this.#told(READ_MS, `read ${this.place}/${name}`, async () => {
      await this.#mustBeThere();
      using file = await Deno.open(`${this.#path}/${name}`);
      await file.seek(first, Deno.SeekMode.Start);
      const bytes = new Uint8Array(last - first + 1);
      for (let filled = 0; filled < bytes.length;) {
        const count = await file.read(bytes.subarray(filled));
        if (count === null) throw new Error("it ends before these bytes: the object was cut or replaced");
        filled += count;
      }
      return bytes;
    });
  }

  async probe(): Promise<string> {
    await this.#told(READ_MS, `use ${this.place}`, () => this.#mustBeThere());
    return `${this.place} is there; every machine that may lead or serves the admin page must have this same folder`;
  }

  async #mustBeThere(): Promise<void> {
    if (!(await Deno.stat(this.#path)).isDirectory) throw new Error("it is no folder");
  }

  async #told<T>(limit_ms: number, what: string, act: () => Promise<T>): Promise<T> {
    try {
      return await within(limit_ms, what, act());
    } catch (error) {
      const { why, fix } = reasonOf(error, this.#path);
      throw new ArchiveError(`Cannot ${what}: ${why}`, fix);
    }
  }
}

function reasonOf(error: unknown, path: string): { why: string; fix: string } {
  if (error instanceof Deno.errors.NotFound) {
    return {
      why: "it is not there",
      fix: `mount ${path} on this machine, or make it; objects that were removed are gone`,
    };
  }
  if (error instanceof Deno.errors.PermissionDenied) {
    return { why: "this process may not", fix: `let the user of this process read and write ${path}` };
  }
  return {
    why: messageOf(error),
    fix: `look after the disk or mount at ${path}`,
  };
}

async function written(path: string, bytes: Uint8Array): Promise<void> {
  using file = await Deno.open(path, { write: true, createNew: true, mode: 0o640 });
  for (let from = 0; from < bytes.length;) from += await file.write(bytes.subarray(from));
  await file.sync();
}

/** A new name is as durable as its folder. */
async function synced(folder: string): Promise<void> {
  using opened = await Deno.open(folder);
  await opened.sync();
}
