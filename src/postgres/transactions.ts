/**
 * Transactions whose session closes before they end, as at each restart of Postgres.
 *
 * The driver then sends what they still ask, its own `rollback` and `commit` among it, to a socket that is gone, outside of any promise: the
 * process ends (porsager/postgres#1208, in 3.4.9). So nothing more is sent once the session has closed, and the driver is not told of an end
 * that it would answer with one of these. The transaction is rejected by the driver when its session closes, whatever becomes of the rest.
 */
import { rest } from "../platform/timers.ts";

type Begin = (options: string, act: (tx: object) => unknown) => Promise<unknown>;

/** What is known of a transaction's session. */
interface Session {
  lost?: Error;
}

/** What the driver calls a query: it is given to `handler` when it is awaited. */
interface Question {
  handler(query: Question): unknown;
  reject(error: unknown): void;
}

/** Of an error that says that the session ends, until it has ended. */
const END_MS = 1_000;

/** The driver's `begin`, as it should be. */
export function withoutLostSessions<DriversBegin>(
  begin: DriversBegin,
  endsSession: (error: unknown) => boolean,
): DriversBegin {
  const begun = (...how: [string, (tx: object) => unknown] | [(tx: object) => unknown]) => {
    const [options, act] = how.length === 1 ? ["", how[0]] as const : how;
    const session: Session = {};
    const done = (begin as Begin)(options, async (tx) => {
      try {
        const asked = act(guarded(tx, session));
        const result = await (Array.isArray(asked) ? Promise.all(asked) : asked);
        return session.lost ? await never() : result;
      } catch (error) {
        if (endsSession(error)) await rest(END_MS); // the session's end comes a moment after what it does to a query
        if (session.lost) return await never();
        throw error;
      }
    });
    done.catch((error) => session.lost = error);
    return done;
  };
  return begun as DriversBegin;
}

function never(): Promise<never> {
  return new Promise(() => {});
}

/** A transaction whose queries are refused once its session has closed. */
function guarded(tx: object, session: Session): object {
  const guard = (query: unknown) => {
    if (query instanceof Promise && "handler" in query) refuseWhenLost(query as unknown as Question, session);
    return query;
  };
  return new Proxy(tx, {
    apply: (ask, _this, args) => guard(Reflect.apply(ask as () => unknown, undefined, args)),
    get(target, name) {
      const value = Reflect.get(target, name);
      return name === "unsafe" ? (...args: unknown[]) => guard(value(...args)) : value;
    },
  });
}

function refuseWhenLost(query: Question, session: Session): void {
  const send = query.handler;
  query.handler = Object.assign((query: Question) => session.lost ? query.reject(session.lost) : send(query), send);
}
