/** One gRPC channel to one address, with the certificates of the moment at which it was made. */
import { Client } from "@grpc/grpc-js";
import { addressText } from "../platform/text.ts";
import type { Meant, PresentedCertificates } from "./trust.ts";
import type { Transport } from "./transport.ts";

const CHANNEL_OPTIONS = {
  "grpc.client_idle_timeout_ms": 2 ** 31 - 1, // it would close in good order, see abrupt_close.ts
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 1_000,
  "grpc.use_local_subchannel_pool": 1, // a new channel must mean a new connection
  "grpc.enable_http_proxy": 0, // workers are reached directly, whatever the environment says of proxies
  "grpc.enable_retries": 0,
  "grpc.enable_channelz": 0,
  "grpc.service_config_disable_resolution": 1,
};

export interface Channel {
  client: Client;
  close(): void;
}

/** `meant` is asked at each connection, `onServer` hears whom it found, and why that one is refused if it is. */
export function openChannel(
  transport: Transport,
  at: { grpc_host: string; grpc_port: number },
  on: { meant(): Meant; onServer(server: PresentedCertificates | undefined, refusal: string | undefined): void },
): Channel {
  const { credentials, cut } = transport.clientCredentials(on.meant, on.onServer);
  const client = new Client(addressText(at.grpc_host, at.grpc_port), credentials, {
    ...CHANNEL_OPTIONS,
    ...transport.client_options,
  });
  return {
    client,
    close() {
      cut(); // first: a channel that is closed in good order says farewell, see abrupt_close.ts
      client.close();
    },
  };
}
