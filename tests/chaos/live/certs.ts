/** The certificates of the nodes of a chaos run, and their change while everything runs. */
import { addPin, makeCertificate, type PinnedFiles } from "../../../src/rpc/certificates.ts";
import { certificatesIn } from "../../../src/rpc/trust.ts";

/** Old enough that a clock which goes an hour wrong finds them good. */
const VALID_SINCE_MS = 2 * 86_400_000;

export class Certificates {
  readonly #dir: string;
  #pins = "";

  constructor(dir: string) {
    this.#dir = dir;
    Deno.mkdirSync(dir, { recursive: true });
  }

  filesOf(node_id: string): PinnedFiles {
    return {
      cert_file: `${this.#dir}/${node_id}.crt`,
      key_file: `${this.#dir}/${node_id}.key`,
      pins_file: `${this.#dir}/pins.pem`,
    };
  }

  async add(node_id: string): Promise<void> {
    this.show(node_id, await this.pinNext(node_id));
  }

  /** A new certificate that all nodes accept from now on, and none shows yet. */
  async pinNext(node_id: string): Promise<{ certificate: string; private_key: string }> {
    const from = new Date(Date.now() - VALID_SINCE_MS);
    const made = await makeCertificate(node_id, { days: 365, from });
    this.#pins = addPin(this.#pins, made.certificate);
    writeWhole(this.filesOf(node_id).pins_file, this.#pins);
    return made;
  }

  /** The node shows it from now on. For a moment the two files do not belong together, as when anybody replaces them. */
  show(node_id: string, { certificate, private_key }: { certificate: string; private_key: string }): void {
    const files = this.filesOf(node_id);
    writeWhole(files.key_file, private_key);
    writeWhole(files.cert_file, certificate);
  }

  /** What the node shows now. */
  shown(node_id: string): string {
    return Deno.readTextFileSync(this.filesOf(node_id).cert_file);
  }

  /** Nobody accepts this certificate any more. */
  unpin(certificate: string): void {
    const [old] = certificatesIn(certificate);
    this.#pins = certificatesIn(this.#pins).filter(({ fingerprint }) => fingerprint !== old?.fingerprint)
      .map(({ pem }) => pem).join("");
    writeWhole(`${this.#dir}/pins.pem`, this.#pins);
  }
}

function writeWhole(file: string, text: string): void {
  Deno.writeTextFileSync(`${file}.new`, text, { mode: 0o600 });
  Deno.renameSync(`${file}.new`, file);
}
