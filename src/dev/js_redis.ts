/**
 * A process of its own around `js-redis-server`, for machines without a real one: in memory only, for development only.
 * Its one argument is a port. The package would listen on every address of the machine, without a password; it is held
 * to the loopback address here, and by the permissions that this process is given.
 */
import { Server } from "node:net";
import { createRedisServer } from "js-redis-server";

const listen = Server.prototype.listen;
Server.prototype.listen = function (this: Server, port: number) {
  return Reflect.apply(listen, this, [port, "127.0.0.1"]);
} as typeof listen;

const { port } = await createRedisServer({ port: Number(Deno.args[0]) });
console.log(`listening on 127.0.0.1:${port}`);
