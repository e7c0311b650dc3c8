/**
 * The folder from which nodes get their certificates: `pins.pem` for all, and for each node a folder with its tls.crt and
 * tls.key and a copy of the pins. With an authority of its own, `ca.crt` takes the place of the pins, and `ca.key`, which
 * leaves this folder never, signs the nodes' certificates.
 *
 *   nothing --make--> in use --rotate--> in use, next one waits (next.crt, next.key; pinned already) --switch--> in use
 *
 * Two steps, since a certificate that its peers do not know yet locks its node out: between them the pins go to every
 * node. What was in use stays pinned until it is forgotten or has expired. Under an authority a node's certificate needs
 * no second step; the authority itself does.
 *
 * Each file is replaced as a whole, and keys are never readable by others, not for an instant.
 */
import { createPrivateKey } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { readIfThere } from "../platform/paths.ts";
import {
  addPin,
  type CertificateAuthority,
  makeAuthority,
  makeCertificate,
  type NodeCertificate,
} from "../rpc/certificates.ts";
import { type Certificate, certificatesIn, outsideItsDates, trustDigest } from "../rpc/trust.ts";

export class CertFolderError extends Error {
  override name = "CertFolderError";
}

export interface NodeState {
  node_id: string;
  certificate: Certificate | undefined;
  /** Waits to be switched to. */
  next: Certificate | undefined;
  /** Why peers would refuse it, or it could not be used. */
  problem: string | undefined;
}

export interface Made {
  node_id: string;
  fingerprint: string;
  not_after: Date;
  /** False: there was one, and it was kept. */
  made: boolean;
}

interface Asked {
  days: number;
  hosts: string[];
}

const AUTHORITY_DAYS = 3_650;
const KEY = 0o600;
const PUBLIC = 0o644;

export class CertFolder {
  readonly dir: string;

  constructor(dir: string) {
    this.dir = dir;
  }

  /** Whether an authority of the folder's own signs, rather than that certificates are pinned. */
  get hasAuthority(): boolean {
    return existsSync(this.#at("ca.crt"));
  }

  /** What every node must have: `pins.pem` or `ca.crt`. */
  get trust_file(): string {
    return this.#at(this.#trust_name);
  }

  /** As the workers write it into their rows when they have taken the file. */
  get trust_digest(): string {
    const all = this.trusted();
    return trustDigest(
      this.hasAuthority
        ? { pins: new Map(), authorities: all }
        : { pins: new Map(all.map((one) => [one.fingerprint, one])), authorities: [] },
    );
  }

  get #trust_name(): string {
    return this.hasAuthority ? "ca.crt" : "pins.pem";
  }

  /** The certificates in the file that every node must have. */
  trusted(): Certificate[] {
    return certificatesIn(readIfThere(this.trust_file));
  }

  nodes(): NodeState[] {
    if (!existsSync(this.dir)) return [];
    const names = readdirSync(this.dir, { withFileTypes: true }).filter((one) => one.isDirectory());
    return names.map(({ name }) => name).filter((name) => existsSync(this.#at(name, "tls.crt"))).sort()
      .map((node_id) => this.#stateOf(node_id));
  }

  /** Of an authority that waits to be switched to. */
  nextAuthority(): Certificate | undefined {
    return certificatesIn(readIfThere(this.#at("next-ca.crt")))[0];
  }

  /** The authority that signs now. */
  authority(): Certificate | undefined {
    const key = readIfThere(this.#at("ca.key"));
    return this.hasAuthority && key ? this.trusted().find((one) => isPair(one, key)) : undefined;
  }

  /** For a folder that is to have an authority of its own: makes it, once. */
  async ensureAuthority(): Promise<void> {
    if (this.hasAuthority) return;
    if (existsSync(this.#at("pins.pem"))) {
      throw new CertFolderError(
        `Cannot make an authority in ${this.dir}: it holds pinned certificates; use another folder, and let nodes have ` +
          "both for a while: SCHEDULER_TLS_PINS_FILE and SCHEDULER_TLS_CA_FILE",
      );
    }
    mkdirSync(this.dir, { recursive: true, mode: 0o700 });
    const { certificate, private_key } = await makeAuthority("dandori nodes", { days: AUTHORITY_DAYS });
    this.#write("ca.key", private_key, KEY);
    this.#write("ca.crt", certificate, PUBLIC);
  }

  /** A certificate for each node that has none. */
  async make(node_ids: string[], asked: Asked): Promise<Made[]> {
    const made: Made[] = [];
    for (const node_id of node_ids) {
      const there = certificatesIn(readIfThere(this.#at(node_id, "tls.crt")))[0];
      if (there) made.push({ ...there, node_id, made: false });
      else {
        const identity = await this.#issue(node_id, asked);
        // First, or a node that has its certificate when this is cut short is one that all others refuse, and is not made again.
        if (!this.hasAuthority) this.#pin(identity.certificate);
        this.#use(node_id, identity.certificate, identity.private_key);
        made.push(madeFrom(node_id, identity));
      }
    }
    this.#share();
    return made;
  }

  /** New certificates: with an authority in use at once, pinned ones wait for `switch`. Those that have expired are unpinned. */
  async rotate(node_ids: string[], asked: Asked): Promise<Made[]> {
    const made: Made[] = [];
    if (!this.hasAuthority) this.#keepOnly((pin) => outsideItsDates(pin) === undefined);
    for (const node_id of node_ids) {
      const identity = await this.#issue(node_id, asked);
      made.push(madeFrom(node_id, identity));
      if (this.hasAuthority) this.#use(node_id, identity.certificate, identity.private_key);
      else {
        this.#pin(identity.certificate);
        this.#drop(`${node_id}/next.crt`);
        this.#write(`${node_id}/next.key`, identity.private_key, KEY);
        this.#write(`${node_id}/next.crt`, identity.certificate, PUBLIC);
      }
    }
    this.#share();
    return made;
  }

  /** The next authority, which waits for `switch`; nodes trust both from now on. */
  async rotateAuthority(): Promise<Certificate> {
    const { certificate, private_key } = await makeAuthority("dandori nodes", { days: AUTHORITY_DAYS });
    this.#drop("next-ca.crt");
    this.#write("next-ca.key", private_key, KEY);
    this.#pin(certificate); // before it waits for `switch`, which would put the key of one that nobody trusts in place of the one that signs
    this.#write("next-ca.crt", certificate, PUBLIC);
    this.#share();
    return certificatesIn(certificate)[0] as Certificate;
  }

  /** What waits takes its place. Gives the nodes whose certificate has changed. */
  async switch(asked: Asked): Promise<Made[]> {
    if (this.nextAuthority()) {
      this.#move("next-ca.key", "ca.key");
      const made = await this.rotate(this.nodes().map(({ node_id }) => node_id), asked);
      rmSync(this.#at("next-ca.crt"));
      return made;
    }
    const switched: Made[] = [];
    for (const { node_id, next } of this.nodes()) {
      if (!next) continue;
      this.#move(`${node_id}/next.key`, `${node_id}/tls.key`);
      this.#move(`${node_id}/next.crt`, `${node_id}/tls.crt`);
      switched.push({ node_id, fingerprint: next.fingerprint, not_after: next.not_after, made: true });
    }
    return switched;
  }

  /** Of all nodes must know: those that a node has or had, or one by the start of its fingerprint. */
  known(what: string): Certificate[] {
    const is_node = this.nodes().some(({ node_id }) => node_id === what);
    if (is_node) return this.hasAuthority ? [] : this.trusted().filter((one) => one.subject === `CN=${what}`);
    return this.trusted().filter((one) => one.fingerprint.startsWith(what.toUpperCase()));
  }

  /** What nobody shows or signs with any more. */
  former(): Certificate[] {
    const used = this.nodes().flatMap(({ certificate, next }) => [certificate, next]);
    const all = [...used, this.authority(), this.nextAuthority()].map((one) => one?.fingerprint);
    return this.trusted().filter((one) => !all.includes(one.fingerprint));
  }

  /** Lets these be unknown from now on, and removes the folder of `node_id`. */
  forget(gone: Certificate[], node_id?: string): void {
    const holder = this.nodes().find((one) => one.node_id !== node_id && gone.some((pin) => holds(one, pin)));
    if (holder || gone.some((one) => one.fingerprint === this.authority()?.fingerprint)) {
      throw new CertFolderError(
        `Cannot forget ${holder ? `the certificate that ${holder.node_id} shows` : "the authority that signs"}; ` +
          `first put another in its place: deno task certs rotate ${this.dir}${holder ? "" : " --ca"}, and then switch`,
      );
    }
    if (node_id !== undefined) rmSync(this.#at(node_id), { recursive: true });
    const fingerprints = gone.map((one) => one.fingerprint);
    this.#keepOnly((one) => !fingerprints.includes(one.fingerprint));
    this.#share();
  }

  #stateOf(node_id: string): NodeState {
    const [certificate] = certificatesIn(readIfThere(this.#at(node_id, "tls.crt")));
    const [next] = certificatesIn(readIfThere(this.#at(node_id, "next.crt")));
    return { node_id, certificate, next, problem: this.#problemOf(node_id, certificate) };
  }

  #problemOf(node_id: string, certificate: Certificate | undefined): string | undefined {
    if (!certificate) return "tls.crt holds no certificate";
    if (!isPair(certificate, readIfThere(this.#at(node_id, "tls.key")))) return "tls.key is not the key of tls.crt";
    const mode = Deno.statSync(this.#at(node_id, "tls.key")).mode ?? 0;
    if ((mode & 0o077) !== 0) {
      return `tls.key is open to others than its owner (mode ${(mode & 0o777).toString(8)}, want 600)`;
    }
    const outside = outsideItsDates(certificate);
    if (outside) return outside;
    const known = this.trusted().some((one) =>
      this.hasAuthority ? certificate.x509.verify(one.x509.publicKey) : one.fingerprint === certificate.fingerprint
    );
    if (!known) return this.hasAuthority ? "no authority of ca.crt has signed it" : "it is not in pins.pem";
    return readIfThere(this.#at(node_id, this.#trust_name)) === readIfThere(this.trust_file)
      ? undefined
      : `${node_id}/${this.#trust_name} is not the same as ${this.#trust_name}`;
  }

  async #issue(node_id: string, { days, hosts }: Asked): Promise<NodeCertificate> {
    return await makeCertificate(node_id, { days, hosts, authority: this.#signer() });
  }

  #signer(): CertificateAuthority | undefined {
    if (!this.hasAuthority) return undefined;
    const signer = this.authority();
    if (!signer) {
      throw new CertFolderError(
        `Cannot sign with the authority in ${this.dir}: ${this.#at("ca.key")} is missing, or no key of those in ca.crt`,
      );
    }
    return {
      certificate: signer.pem,
      private_key: readIfThere(this.#at("ca.key")),
      fingerprint: signer.fingerprint,
    };
  }

  #use(node_id: string, certificate: string, private_key: string): void {
    mkdirSync(this.#at(node_id), { recursive: true, mode: 0o700 });
    this.#write(`${node_id}/tls.key`, private_key, KEY);
    this.#write(`${node_id}/tls.crt`, certificate, PUBLIC);
  }

  #pin(certificate: string): void {
    mkdirSync(this.dir, { recursive: true, mode: 0o700 });
    this.#write(this.#trust_name, addPin(readIfThere(this.trust_file), certificate), PUBLIC);
  }

  #keepOnly(wanted: (one: Certificate) => boolean): void {
    this.#write(this.#trust_name, this.trusted().filter(wanted).map((one) => one.pem).join(""), PUBLIC);
  }

  /** Every node's folder is complete: its copy of the pins as well, also for nodes that were made earlier. */
  #share(): void {
    const text = readIfThere(this.trust_file);
    for (const { node_id } of this.nodes()) this.#write(`${node_id}/${this.#trust_name}`, text, PUBLIC);
  }

  /** Done already, by a switch that was cut short, is done. */
  #move(from: string, to: string): void {
    if (existsSync(this.#at(from))) Deno.renameSync(this.#at(from), this.#at(to));
  }

  /** What waits does so by its certificate: one of before must not stand beside the next key, should this be cut short. */
  #drop(name: string): void {
    rmSync(this.#at(name), { force: true });
  }

  #at(...names: string[]): string {
    return [this.dir, ...names].join("/");
  }

  #write(name: string, text: string, mode: number): void {
    const file = this.#at(name);
    rmSync(`${file}.new`, { force: true });
    Deno.writeTextFileSync(`${file}.new`, text, { mode, createNew: true });
    Deno.chmodSync(`${file}.new`, mode); // whatever the umask says
    Deno.renameSync(`${file}.new`, file);
  }
}

function madeFrom(node_id: string, { certificate, fingerprint }: NodeCertificate): Made {
  const [made] = certificatesIn(certificate) as [Certificate];
  return { node_id, fingerprint, not_after: made.not_after, made: true };
}

function holds({ certificate, next }: NodeState, pin: Certificate): boolean {
  return certificate?.fingerprint === pin.fingerprint || next?.fingerprint === pin.fingerprint;
}

function isPair(certificate: Certificate, key: string): boolean {
  try {
    return certificate.x509.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}
