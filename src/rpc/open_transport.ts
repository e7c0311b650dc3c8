/** The way to peers that SCHEDULER_TLS asks for. */
import type { Config } from "../platform/config.ts";
import { MeshTransport } from "./mesh_transport.ts";
import { Tls } from "./tls.ts";
import type { Transport } from "./transport.ts";

/** Throws one error that names every problem when the certificates are not good. */
export function openTransport(config: Pick<Config, "tls">): Transport {
  return config.tls === "mesh" ? new MeshTransport() : new Tls(config.tls);
}
