/**
 * Who this process is to its peers, and whom it lets in: mutual TLS by pinned certificates.
 *
 * A peer must pass three gates, and each would do alone:
 *   1. the TLS library: its certificate leads to a pinned one, and it holds the key;
 *   2. `refusal`, when the connection is made: its certificate is byte for byte a pinned one, within its dates, and the
 *      one of the worker that was meant, where that is known;
 *   3. `refusal` again on every call that the server gets, since a pin may have been removed meanwhile.
 * The second is needed: a key that is pinned could sign other certificates, Deno's TLS client also trusts the public
 * authorities, and its TLS server does not look at the dates of a pinned certificate.
 *
 * The files are looked at every few seconds. Good new ones are taken: new connections use them at once, connections that
 * are open go on for a while unless their peer's pin is gone. Bad ones are reported and the old ones stay in use.
 */
import { credentials } from "@grpc/grpc-js";
import { connect as connectTls, type TlsOptions } from "node:tls";
import { observe } from "../base/facts.ts";
import { every, wallClock } from "../base/loop.ts";
import { type Cuttable, cuttable } from "./cutting.ts";
import { fingerprintOf, outsideItsDates, readTlsFiles, type TlsFiles, type TlsMaterial } from "./tls_files.ts";

export { type TlsFiles, TlsFilesError } from "./tls_files.ts";

/** All workers answer to this name in the handshake; who they are is said by their certificate. */
const SERVER_NAME = "dandori-worker";
/** Days before the end of a certificate from which on it is reported, once a day. */
const EXPIRY_WARNING_DAYS = 21;
const DAY_MS = 86_400_000;

export interface TlsSettings {
  /** How often the files are looked at; default 5000. */
  poll_ms?: number;
}

export class Tls {
  readonly #files: TlsFiles;
  readonly #listeners = new Set<() => void>();
  readonly #stop = new AbortController();
  readonly #watching: Promise<void>;
  #material: TlsMaterial;
  #generation = 1;
  #seen: string;
  #warned_days = Infinity;

  /** Reads the files; throws a TlsFilesError that names every problem when they are not good. */
  constructor(files: TlsFiles, options: TlsSettings = {}) {
    this.#files = files;
    this.#seen = lookAt(files);
    this.#material = readTlsFiles(files);
    const tick = () => Promise.resolve(this.reload());
    this.#watching = every(options.poll_ms ?? 5_000, tick, { name: "tls", stop: this.#stop.signal });
  }

  get fingerprint(): string {
    return this.#material.certificate.fingerprint;
  }

  get not_after(): Date {
    return this.#material.certificate.not_after;
  }

  /** Fingerprints of the peers that may connect. */
  get pinned(): string[] {
    return [...this.#material.pins.keys()];
  }

  /** Counts the material taken: 1 at the start, one more for each change on disk that was good. */
  get generation(): number {
    return this.#generation;
  }

  /** Calls `listener` after each change; the returned function ends that. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Takes what is on disk if it changed and is good. Done by itself every `poll_ms`. */
  reload(): void {
    this.#warnOfExpiry();
    const seen = lookAt(this.#files);
    if (seen === this.#seen) return;
    this.#seen = seen;
    let material: TlsMaterial;
    try {
      material = readTlsFiles(this.#files);
    } catch (error) {
      observe("tls.kept", { fingerprint: this.fingerprint, problem: (error as Error).message });
      return;
    }
    this.#material = material;
    this.#generation += 1;
    observe("tls.reloaded", { fingerprint: this.fingerprint, pins: material.pins.size });
    for (const listener of this.#listeners) listener();
  }

  /**
   * Why a peer's certificate is not acceptable now, undefined when it is. `expected` is the fingerprint of the worker
   * that was meant to be there.
   */
  refusal(fingerprint: string | undefined, expected?: string): string | undefined {
    if (fingerprint === undefined) return "it showed no certificate";
    const pin = this.#material.pins.get(fingerprint);
    if (!pin) return "its certificate is not pinned here";
    const outside = outsideItsDates(pin);
    if (outside) return `its certificate ${outside}`;
    if (expected !== undefined && fingerprint !== expected) return `the worker meant has certificate ${expected}`;
    return undefined;
  }

  /**
   * For a TLS listener. Its handshake asks for a certificate and completes without a good one, so that the listener
   * learns whom it turns away: it must check `authorized` and `refusal` before it reads a byte.
   */
  serverOptions(): TlsOptions {
    const { certificate, private_key } = this.#material;
    return {
      cert: certificate.pem,
      key: private_key,
      ca: this.#roots(),
      requestCert: true,
      rejectUnauthorized: false,
      minVersion: "TLSv1.3",
      ALPNProtocols: ["h2"],
    };
  }

  /**
   * For a gRPC channel to the worker that has this certificate, or to any pinned one. Made anew after each change.
   * `onServer` hears of each server that passed the TLS library, and why it is refused nevertheless if it is.
   */
  clientCredentials(
    expected: string | undefined,
    onServer: (fingerprint: string, refusal: string | undefined) => void,
  ): Cuttable {
    const { certificate, private_key } = this.#material;
    return cuttable(credentials.createSsl(this.#roots(), Buffer.from(private_key), Buffer.from(certificate.pem), {
      rejectUnauthorized: true, // said aloud, so that no environment variable can turn it off
      checkServerIdentity: (_name, server) => {
        const theirs = fingerprintOf(server.raw);
        const refusal = this.refusal(theirs, expected);
        onServer(theirs, refusal);
        return refusal === undefined ? undefined : new Error(`the server is refused: ${refusal}`);
      },
    }));
  }

  /** Channel options that go with `clientCredentials`. */
  readonly client_options = { "grpc.ssl_target_name_override": SERVER_NAME };

  /**
   * The fingerprint of whoever listens there, for the log only: nothing is trusted and nothing is sent. When a server is
   * not pinned the handshake fails before anybody is told its certificate.
   */
  fingerprintAt(host: string, port: number, patience_ms = 1_000): Promise<string | undefined> {
    const { certificate, private_key } = this.#material;
    return new Promise((resolve) => {
      const socket = connectTls({
        host,
        port,
        servername: SERVER_NAME,
        rejectUnauthorized: false,
        cert: certificate.pem,
        key: private_key,
        ALPNProtocols: ["h2"],
        timeout: patience_ms,
      });
      const done = () => {
        const raw = socket.getPeerCertificate()?.raw;
        resolve(raw && fingerprintOf(raw));
        socket.destroy();
      };
      socket.once("secureConnect", done).once("timeout", done).once("close", done).on("error", done);
    });
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#listeners.clear();
    await this.#watching;
  }

  #roots(): Buffer {
    return Buffer.from([...this.#material.pins.values()].map((pin) => pin.pem).join(""));
  }

  #warnOfExpiry(): void {
    const days_left = Math.floor((this.not_after.getTime() - wallClock().getTime()) / DAY_MS);
    if (days_left > EXPIRY_WARNING_DAYS) this.#warned_days = Infinity;
    else if (days_left < this.#warned_days) {
      this.#warned_days = days_left;
      observe("certificate.expiring", { fingerprint: this.fingerprint, days_left });
    }
  }
}

/** Changes when one of the files does: also by a rename over it, or by a link that leads elsewhere. */
function lookAt(files: TlsFiles): string {
  return [files.cert_file, files.key_file, files.pins_file].map((file) => {
    try {
      const { mtime, size, ino } = Deno.statSync(file);
      return `${mtime?.getTime()} ${size} ${ino}`;
    } catch {
      return "absent";
    }
  }).join(", ");
}
