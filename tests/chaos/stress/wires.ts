/**
 * The ways of a process to Postgres and Redis, with all that can happen on them. Both ends are real; only what is
 * between is ours: a statement that never arrives, one whose reply is lost, and one that is carried out later than
 * its sender waits for it, as on a connection that broke while Postgres was busy.
 */
import { rest } from "../../../src/platform/timers.ts";
import { RedisAway, type RedisConnection } from "../../../src/redis/connection.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import type { SimProcess } from "./process.ts";
import { mistaken } from "./mistakes.ts";
import { awayFor, count, later, type World } from "./world.ts";

const LATEST_MS = 400;

/** The pool as one process sees it. */
export function postgresOf(world: World, process: SimProcess): Sql {
  return new Proxy(world.sql, {
    apply(pool, _this, args) {
      const [strings, ...values] = planted(world, args);
      const query = Reflect.apply(pool, undefined, [strings, ...values]) as unknown;
      if (!(query instanceof Promise)) return query; // a name or a list, to be put into a query
      let answer: Promise<unknown> | undefined;
      const text = textOf(strings as string[], values);
      texts.set(query, text);
      const ask = () => answer ??= carry(world, process, { query, text });
      // The driver sends a query when it is asked for its answer; one that becomes part of another never is.
      Object.assign(query, {
        then: (...on: Parameters<Promise<unknown>["then"]>) => ask().then(...on),
        catch: (...on: Parameters<Promise<unknown>["catch"]>) => ask().catch(...on),
        finally: (...on: Parameters<Promise<unknown>["finally"]>) => ask().finally(...on),
      });
      return query;
    },
    get: (pool, name) => Reflect.get(pool, name),
  });
}

/** What a query or a part of one says, with the parts that it is made of. */
const texts = new WeakMap<object, string>();

function textOf(pieces: readonly string[], values: unknown[]): string {
  return pieces.map((piece, place) => {
    const value = values[place];
    return piece + (place === values.length ? "" : value instanceof Object ? texts.get(value) ?? "?" : "?");
  }).join("");
}

async function carry(world: World, process: SimProcess, sent: { query: Promise<unknown>; text: string }) {
  const { weather, chance } = world;
  const execute = () => Reflect.apply(Object.getPrototypeOf(sent.query).then, sent.query, [(rows: unknown) => rows]);
  const odds = { ...weather, ...world.mistake?.odds?.(sent.text) };
  if (chance.happens(odds.pause)) {
    count(world, "paused before a statement");
    process.freeze(awayFor(world));
  }
  await process.passes();
  if (world.without_postgres.has(process)) throw broken("ECONNREFUSED");
  if (chance.happens(odds.sql_slow)) await rest(world.scale * chance.between(5, 150));
  const luck = chance.next();
  if (luck < odds.sql_cut_before) {
    count(world, "statements lost");
    throw broken("CONNECTION_CLOSED");
  }
  if (luck < odds.sql_cut_before + odds.sql_late) {
    count(world, "statements carried out late");
    later(world, rest(world.scale * chance.between(0, LATEST_MS)).then(execute));
    throw broken("CONNECTION_CLOSED");
  }
  const rows = await execute();
  if (chance.happens(odds.pause_after)) {
    count(world, "paused after a statement");
    process.freeze(awayFor(world));
  }
  await process.passes();
  if (luck < odds.sql_cut_before + odds.sql_late + odds.sql_cut_after || world.without_postgres.has(process)) {
    count(world, "replies lost");
    throw broken("CONNECTION_CLOSED");
  }
  return rows;
}

function broken(code: string): Error {
  return Object.assign(new Error(`the connection broke: ${code}`), { code });
}

/** A statement with the planted mistake in it, if it is one that the mistake is about. */
function planted(world: World, args: unknown[]): unknown[] {
  const strings = args[0] as TemplateStringsArray;
  if (!world.mistake || !Array.isArray(strings?.raw)) return args;
  let text = world.statements.get(strings);
  if (!text) {
    const pieces = mistaken(world.mistake, strings);
    text = pieces ? Object.assign([...pieces], { raw: pieces }) as unknown as TemplateStringsArray : strings;
    world.statements.set(strings, text);
  }
  if (text !== strings) count(world, "planted");
  return [text, ...args.slice(1)];
}

/** Redis as one process sees it. */
export function redisOf(world: World, process: SimProcess): RedisConnection {
  const door = world.redis;
  const guarded = async (act: () => Promise<unknown>) => {
    await process.passes();
    if (world.without_redis.has(process)) throw new RedisAway("Cannot reach Redis: it is away");
    const answer = await act();
    await process.passes();
    return answer;
  };
  return {
    prefix: door.prefix,
    script: (...args: Parameters<RedisConnection["script"]>) => guarded(() => door.script(...args)),
    ask: (what: string, send: Parameters<RedisConnection["ask"]>[1]) => guarded(() => door.ask(what, send)),
    pipeline: (...args: Parameters<RedisConnection["pipeline"]>) => guarded(() => door.pipeline(...args)),
  } as unknown as RedisConnection;
}
