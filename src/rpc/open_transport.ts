/** The way to peers that SCHEDULER_TLS asks for. */
import type { Config } from "../platform/config.ts";
import { MeshWire } from "./mesh_transport.ts";
import { Tls } from "./tls.ts";
import type { Wire } from "./transport.ts";

/** Throws one error that names every problem when the certificates are not good. */
export function openWire(config: Pick<Config, "tls">): Wire {
  return config.tls === "mesh" ? new MeshWire() : new Tls(config.tls);
}
