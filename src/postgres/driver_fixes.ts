/**
 * What the driver does not do by itself, done by the object that it calls a query, of which all are of one kind.
 *
 * - It tells by nothing when a query that waited for a session got one: it only notes the session in `state`.
 * - Where a statement fails after some of its rows have come, it forgets to count anew, and puts the rows of the next one on that session behind
 *   as many that are not there (issue 1181 of its repository): `const [row] = ...` was undefined of a row that Postgres had returned.
 *
 * Setters are those of all queries: one for each makes it an object of its own kind, and V8 keeps kinds, with all that they know, until the
 * whole heap is collected.
 */
const STATE = Symbol("state");
const ON_SENT = Symbol("on sent");
const ANSWER = Symbol("answer");

interface Question {
  [STATE]?: object | null;
  [ON_SENT]?: (session: object) => void;
  [ANSWER]?: (rows: unknown) => void;
}

export function whenSent(query: Promise<unknown>, act: (session: object) => void): void {
  (query as Question)[ON_SENT] = act;
}

let mended = false;

/** Of any query, for all that are made later. */
export function mendDriver(query: Promise<unknown>): void {
  if (mended) return;
  mended = true;
  Object.defineProperties(Object.getPrototypeOf(query), {
    state: {
      configurable: true,
      get(this: Question) {
        return this[STATE] ?? null;
      },
      set(this: Question, session: object | null) {
        const sent = session !== null && !this[STATE];
        this[STATE] = session;
        if (sent) this[ON_SENT]?.(session);
      },
    },
    resolve: {
      configurable: true,
      get: () => answer,
      set(this: Question, resolve: (rows: unknown) => void) {
        this[ANSWER] = resolve;
      },
    },
  });
}

function answer(this: Question, rows: unknown): void {
  if (Array.isArray(rows) && rows.length > 0 && !(0 in rows)) {
    rows.splice(
      0,
      rows.findIndex((_, place) => place in rows),
    );
  }
  this[ANSWER]?.(rows);
}
