/**
 * Who this process is to its peers, and whom it lets in: mutual TLS by pinned certificates, or by an authority.
 *
 * A peer must pass three gates:
 *   1. the TLS library: its certificate leads to a pinned one or to an authority, and it holds the key;
 *   2. `refusal`, when the connection is made: its certificate is byte for byte a pinned one or signed by an authority of
 *      ours, within its dates, and the one of the worker and node that were meant, where they are known;
 *   3. `refusal` again on every call that the server gets, since a pin may have been removed meanwhile.
 * The second is needed: a key that is pinned could sign other certificates, Deno's TLS client also trusts the public
 * authorities, and its TLS server does not look at the dates of a pinned certificate.
 *
 * The files are looked at every few seconds. Good new ones are taken: new connections use them at once, connections that
 * are open go on for a while unless their peer's pin is gone. Bad ones are reported and the old ones stay in use.
 *
 *   in use --good new files--> whom to let in: in use at once
 *                          \-> a new certificate: announced in the worker's row --when all have read it--> in use
 *
 * Announced first, or peers would refuse the new certificate until they next read the row.
 */
import { credentials } from "@grpc/grpc-js";
import type { Server } from "node:net";
import {
  connect as connectTls,
  createSecureContext,
  createServer,
  type DetailedPeerCertificate,
  type PeerCertificate,
  type TlsOptions,
  type TLSSocket,
} from "node:tls";
import type { TlsFiles } from "../platform/config.ts";
import { observe } from "../platform/facts.ts";
import { every, monotonicMs, wallClock } from "../platform/timers.ts";
import { messageOf } from "../platform/text.ts";
import { type AbruptlyClosable, abruptlyClosable } from "./abrupt_close.ts";
import { readTlsFiles, type TlsMaterial } from "./tls_files.ts";
import {
  type Certificate,
  certificatesIn,
  type Meant,
  type PresentedCertificates,
  shownBy,
  trustDigest,
  whyNotTrusted,
} from "./trust.ts";
import type { ListenerEvents, Transport } from "./transport.ts";

/** All workers answer to this name in the handshake; who they are is said by their certificate. */
const SERVER_NAME = "dandori-worker";
/** A certificate whose days run out is reported when these many are left, and again when it has expired. */
export const EXPIRY_WARNING_DAYS = [21, 7, 1, 0];
/** The one before shows both certificates to whoever listens on the way. */
const OLDEST = "TLSv1.3";
const DAY_MS = 86_400_000;
const HANDSHAKE_TIMEOUT_MS = 5_000;
/** Longer than connections live that were made with the certificate of before. */
const FORMER_MS = 60_000;
const PEER_PATIENCE_MS = 1_000;
const MOST_SHOWN = 6;

/** A new certificate that is not used yet: from `usable_at_ms` on, once it is announced. */
interface Waiting {
  material: TlsMaterial;
  usable_at_ms: number | undefined;
}

export class Tls implements Transport {
  announce: (() => Promise<number>) | undefined;
  readonly #files: TlsFiles;
  readonly #listeners = new Set<() => void>();
  readonly #stop = new AbortController();
  readonly #watching: Promise<void>;
  #material: TlsMaterial;
  #next: Waiting | undefined;
  #former: { fingerprint: string; until_ms: number } | undefined;
  #generation = 1;
  #seen: string;
  /** What lies on disk was no good when it was last read. */
  #refused = false;
  readonly #told_problems = new Set<string>();
  /** By fingerprint: the fewest days of which was told. */
  readonly #warned_days = new Map<string, number>();

  /** Reads the files; throws one error that names every problem when they are not good. */
  constructor(files: TlsFiles) {
    this.#files = files;
    this.#seen = lookAt(files);
    this.#material = readTlsFiles(files);
    this.#watching = every(files.poll_ms ?? 5_000, () => this.reload(), { name: "tls", stop: this.#stop.signal });
  }

  /** From its announcement on it is the new one. */
  get fingerprint(): string {
    return (this.#next?.material ?? this.#material).certificate.fingerprint;
  }

  get former_fingerprint(): string | null {
    if (this.#next) return this.#material.certificate.fingerprint;
    return this.#former && monotonicMs() < this.#former.until_ms ? this.#former.fingerprint : null;
  }

  get trust_digest(): string {
    return trustDigest(this.#material.trust);
  }

  get not_after(): Date {
    return this.#material.certificate.not_after;
  }

  get generation(): number {
    return this.#generation;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Takes what is on disk if it changed and is good. Done by itself every `poll_ms`, one after the other. */
  async reload(): Promise<void> {
    this.#warnOfExpiry();
    const seen = lookAt(this.#files);
    if (seen !== this.#seen) this.#told_problems.clear();
    // What was refused is read again though it did not change: whose file it is, who may read it, or the time may have.
    if (seen !== this.#seen || this.#refused) {
      this.#seen = seen;
      try {
        this.#adopt(readTlsFiles(this.#files));
        this.#refused = false;
        this.#told_problems.clear();
      } catch (error) {
        this.#refused = true;
        this.#keep((error as Error).message);
      }
    }
    if (this.#next) await this.#tryNext(this.#next);
  }

  /** Whom to let in counts at once; a new certificate waits to be announced, unless nobody would accept the old one. */
  #adopt(material: TlsMaterial): void {
    const { certificate } = this.#material;
    const old = { certificate, issuers: certificatesIn(this.#material.chain).slice(1) };
    const is_new = material.certificate.fingerprint !== certificate.fingerprint;
    this.#next = undefined;
    if (!is_new || !this.announce || whyNotTrusted(material.trust, old) !== undefined) return this.#take(material);
    if (trustDigest(material.trust) !== this.trust_digest) this.#take({ ...this.#material, trust: material.trust });
    this.#next = { material, usable_at_ms: undefined };
  }

  async #tryNext(next: Waiting): Promise<void> {
    try {
      next.usable_at_ms ??= await this.announce?.().then((settle_ms) => monotonicMs() + settle_ms) ?? 0;
    } catch (error) {
      const why = messageOf(error);
      this.#keep(`a new certificate waits until its fingerprint can be written into the worker's row: ${why}`);
      if (this.#material.certificate.not_after > wallClock()) return; // else it is of no use any more: rather seconds of refusals
      next.usable_at_ms = 0;
    }
    if (monotonicMs() < next.usable_at_ms) return;
    this.#next = undefined;
    this.#take(next.material);
    this.#told_problems.clear();
  }

  #take(material: TlsMaterial): void {
    const former = this.#material.certificate.fingerprint;
    if (material.certificate.fingerprint !== former) {
      this.#former = { fingerprint: former, until_ms: monotonicMs() + FORMER_MS };
    }
    this.#material = material;
    this.#generation += 1;
    const { pins, authorities } = material.trust;
    observe("tls.reloaded", {
      fingerprint: material.certificate.fingerprint,
      pins: pins.size,
      authorities: authorities.length,
    });
    for (const listener of this.#listeners) listener();
  }

  #keep(problem: string): void {
    if (!this.#told_problems.has(problem)) observe("tls.kept", { fingerprint: this.fingerprint, problem });
    this.#told_problems.add(problem);
  }

  refusal(shown: PresentedCertificates | undefined, meant?: Meant): string | undefined {
    return shown ? whyNotTrusted(this.#material.trust, shown, meant) : "it showed no certificate";
  }

  /**
   * Its handshake asks for a certificate and completes without a good one, so that it is known who was turned away:
   * `letIn` must look at `problem` and `refusal` before it reads a byte.
   */
  listener(on: ListenerEvents): Server {
    const listener = createServer({ ...this.serverOptions(), handshakeTimeout: HANDSHAKE_TIMEOUT_MS });
    listener.on("secureConnection", (socket: TLSSocket) => {
      const shown = shownIn(socket.getPeerCertificate(true));
      const problem = socket.authorized ? undefined : `its certificate leads to nobody: ${socket.authorizationError}`;
      on.letIn(socket, { fingerprint: shown?.certificate.fingerprint, shown, problem });
    });
    listener.on("tlsClientError", (error, socket) => on.handshakeFailed(socket, error));
    const unhear = this.onChange(() => listener.setSecureContext(this.serverOptions()));
    listener.once("close", unhear);
    return listener;
  }

  serverOptions(): TlsOptions {
    const { chain, private_key } = this.#material;
    return {
      cert: chain,
      key: private_key,
      ca: this.#roots(),
      requestCert: true,
      rejectUnauthorized: false,
      minVersion: OLDEST,
      ALPNProtocols: ["h2"],
    };
  }

  clientCredentials(
    meant: () => Meant,
    onServer: (shown: PresentedCertificates | undefined, refusal: string | undefined) => void,
  ): AbruptlyClosable {
    const { chain, private_key } = this.#material;
    const context = createSecureContext({ ca: this.#roots(), key: private_key, cert: chain, minVersion: OLDEST });
    return abruptlyClosable(credentials.createFromSecureContext(context, {
      rejectUnauthorized: true, // said aloud, so that no environment variable can turn it off
      checkServerIdentity: (_name, server) => {
        const shown = shownIn(server);
        const refusal = this.refusal(shown, meant());
        onServer(shown, refusal);
        return refusal === undefined ? undefined : new Error(`the server is refused: ${refusal}`);
      },
    }));
  }

  readonly client_options = { "grpc.ssl_target_name_override": SERVER_NAME };

  /** When a server is not trusted the handshake fails before anybody is told its certificate. */
  whoIsAt(host: string, port: number): Promise<PresentedCertificates | undefined> {
    const { chain, private_key } = this.#material;
    return new Promise((resolve) => {
      const socket = connectTls({
        host,
        port,
        servername: SERVER_NAME,
        rejectUnauthorized: false,
        minVersion: OLDEST,
        cert: chain,
        key: private_key,
        ALPNProtocols: ["h2"],
        timeout: PEER_PATIENCE_MS,
      });
      const done = () => {
        resolve(shownIn(socket.getPeerCertificate(true)));
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
    const { pins, authorities } = this.#material.trust;
    return Buffer.from([...pins.values(), ...authorities].map((one) => one.pem).join(""));
  }

  #warnOfExpiry(): void {
    const { certificate, trust } = this.#material;
    const own: [string, Certificate] = ["this node's certificate", certificate];
    const others = trust.authorities.map((one): [string, Certificate] => ["an authority of the CA file", one]);
    for (const [what, { fingerprint, not_after }] of [own, ...others]) {
      const left_ms = not_after.getTime() - wallClock().getTime();
      const step = EXPIRY_WARNING_DAYS.findLast((days) => left_ms <= days * DAY_MS);
      if (step === undefined || step >= (this.#warned_days.get(fingerprint) ?? Infinity)) continue;
      this.#warned_days.set(fingerprint, step);
      observe("certificate.expiring", { what, fingerprint, days_left: daysLeft(not_after) });
    }
  }
}

/** Whole days; below 0 when it has expired. */
export function daysLeft(not_after: Date): number {
  return Math.floor((not_after.getTime() - wallClock().getTime()) / DAY_MS);
}

/** As Deno gives it: each certificate with that of its issuer, the last with itself or with nothing. */
function shownIn(peer: PeerCertificate | undefined): PresentedCertificates | undefined {
  const ders: Uint8Array[] = [];
  let at = peer as Partial<DetailedPeerCertificate> | undefined;
  while (at?.raw && ders.length < MOST_SHOWN) {
    ders.push(at.raw);
    at = at.issuerCertificate === at ? undefined : at.issuerCertificate;
  }
  return shownBy(ders);
}

/** Changes when one of the files does: also by a rename over it, or by a link that leads elsewhere. */
function lookAt({ cert_file, key_file, pins_file, ca_file }: TlsFiles): string {
  return [cert_file, key_file, pins_file, ca_file].map((file) => {
    try {
      if (file === undefined) return "";
      const { mtime, size, ino } = Deno.statSync(file);
      return `${mtime?.getTime()} ${size} ${ino}`;
    } catch {
      return "absent";
    }
  }).join(", ");
}
