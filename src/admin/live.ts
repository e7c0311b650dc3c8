/**
 * One look at Postgres for all who watch. Browsers keep a stream open and name topics (postgres/change_feed.ts); while at least one
 * does, one statement reads the marks of all topics, and whoever watches one that has changed is told its name; another one reads
 * which of their sessions are still open, since a stream ends with its session. What they show
 * they then ask for themselves, as they would without a stream: so nothing is on a page that its viewer may not see.
 */
import { every, Wakeup } from "../platform/timers.ts";
import type { Sql } from "../postgres/connection.ts";
import { readChanges, type Topic } from "../postgres/change_feed.ts";
import { openAmong } from "../access/sessions.ts";

/** Half of the second within which a change is to be seen. */
const LOOK_EVERY_MS = 400;
const LOOK_WHEN_AWAY_MS = 1_000;
const NOBODY_WATCHES_MS = 3_600_000;
const MOST_WATCHERS = 1_000;
/** Far more than somebody looks at, so that nobody takes the places of all others. */
const MOST_OF_ONE = 100;

export interface LiveSubscriber {
  /** The user's name. */
  who: string;
  /** The digest of its session's token. */
  session: string;
  topics: readonly Topic[];
  /** From now on it is told: what was shown before may be old. */
  watching(): void;
  /** These of its topics have changed. */
  changed(topics: Topic[]): void;
  /** Postgres cannot be asked; then, that it can again: anything may have changed meanwhile. */
  away(away: boolean): void;
  /** Its session has ended: by a logout, a new password, or with its user. */
  over(): void;
}

export class Live {
  readonly #sql: Sql;
  readonly #watchers = new Set<LiveSubscriber>();
  /** Whose topics have not been looked at yet. */
  readonly #fresh = new Set<LiveSubscriber>();
  readonly #wakeup = new Wakeup();
  #marks = new Map<Topic, string>();
  #away = false;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Looks until `stop`. */
  async run(stop: AbortSignal): Promise<void> {
    await every(LOOK_EVERY_MS, () => this.#tick(), { name: "live", stop, wakeup: this.#wakeup });
  }

  /** Refused as `theirs`: too many of the same user watch already; as `all`: too many of all. The returned function ends it. */
  watch(watcher: LiveSubscriber): (() => void) | "theirs" | "all" {
    const theirs = [...this.#watchers].filter(({ who }) => who === watcher.who).length;
    if (theirs >= MOST_OF_ONE) return "theirs";
    if (this.#watchers.size >= MOST_WATCHERS) return "all";
    this.#watchers.add(watcher);
    this.#fresh.add(watcher);
    if (this.#away) watcher.away(true);
    this.#wakeup.signal();
    return () => {
      this.#watchers.delete(watcher);
      this.#fresh.delete(watcher);
    };
  }

  async #tick(): Promise<number> {
    if (this.#watchers.size === 0) return NOBODY_WATCHES_MS;
    try {
      await this.look();
    } catch {
      this.#tell(true);
      return LOOK_WHEN_AWAY_MS;
    }
    this.#tell(false);
    return LOOK_EVERY_MS;
  }

  /** Tells each watcher what has changed since the last look. A topic that nobody watched before is only noted. */
  async look(): Promise<void> {
    const fresh = [...this.#fresh];
    const watched = [...new Set([...this.#watchers].flatMap(({ topics }) => topics))];
    const sessions = [...new Set([...this.#watchers].map(({ session }) => session))];
    const [marks, open] = await Promise.all([readChanges(this.#sql, watched), openAmong(this.#sql, sessions)]);
    for (const watcher of [...this.#watchers]) {
      if (sessions.includes(watcher.session) && !open.has(watcher.session)) watcher.over();
    }
    const changed = watched.filter((topic) => this.#marks.has(topic) && this.#marks.get(topic) !== marks.get(topic));
    this.#marks = marks;
    for (const watcher of fresh) {
      if (this.#fresh.delete(watcher)) watcher.watching();
    }
    if (changed.length === 0) return;
    for (const watcher of this.#watchers) {
      const theirs = watcher.topics.filter((topic) => changed.includes(topic));
      if (theirs.length > 0) watcher.changed(theirs);
    }
  }

  #tell(away: boolean): void {
    if (this.#away === away) return;
    this.#away = away;
    for (const watcher of this.#watchers) watcher.away(away);
  }
}
