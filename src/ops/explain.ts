/** Errors that whoever gave the command can mend, in words: what, why, and what to do. */
import { notInstalledText } from "../platform/not_installed.ts";
import { messageOf } from "../platform/text.ts";
import { Refused } from "../actions/args.ts";
import { LogUnreadable } from "../actions/run_log.ts";
import { isBadCertificate } from "../postgres/database_url.ts";
import { isUnreachable } from "../postgres/connection.ts";

export interface Explained {
  message: string;
  fix: string;
  /** Postgres was not reached, or let nobody in. */
  unreachable: boolean;
}

/** Undefined: the error's own message is the best there is. */
export function explain(error: unknown): Explained | undefined {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: string };
  if (error instanceof URIError) return NO_URL; // a % in it that is no %XX
  if (error instanceof TypeError && /^Invalid URL/.test(error.message)) return NO_URL; // its message may hold a password
  if (code === "28000" && /no encryption/.test(message ?? "")) return NO_TLS;
  const known = FROM_POSTGRES[String(code ?? "")];
  if (known) return { ...known, message: `${known.message} (${message})` };
  if (error instanceof Error && error.name === "RedisAway") { // its file is not loaded for this: most commands need no Redis
    return { message: error.message, fix: "start Redis or `deno task dev`", unreachable: true };
  }
  if (isBadCertificate(String(code ?? ""))) return { ...NO_TRUST, message: `${NO_TRUST.message}: ${message}` };
  if (isUnreachable(error)) {
    const fix = "start Postgres or `deno task dev`, and check DATABASE_URL";
    return { message: `Cannot reach Postgres: ${message}`, fix, unreachable: true };
  }
}

/** As one line. */
export function explanation(error: unknown): string {
  const explained = explain(error);
  if (explained) return `${explained.message}; ${explained.fix}`;
  if ((error instanceof Refused || error instanceof LogUnreadable) && error.fix) {
    return `${error.message}; ${error.fix}`;
  }
  const missing = notInstalledText(messageOf(error));
  return missing ? `Cannot go on: ${missing}` : messageOf(error);
}

const NO_SCHEMA = {
  message: "Cannot find Dandori's tables in this database, or they are those of another version",
  fix: "apply the schema: deno task schema",
  unreachable: false,
};
/** pg_hba.conf has a line of `hostssl` alone. */
const NO_TLS = {
  message: "Postgres lets nobody in without TLS",
  fix:
    "add ?sslmode=verify-full to DATABASE_URL, and &sslrootcert=/path/ca.pem where its authority is not known to everybody",
  unreachable: true,
};
const NO_TRUST = {
  message: "Cannot trust Postgres' certificate",
  fix:
    "name its authority and its host in DATABASE_URL: postgres://...@host/...?sslmode=verify-full&sslrootcert=/path/ca.pem",
  unreachable: true,
};
const NOT_LET_IN = {
  message: "Cannot log in to Postgres",
  fix: "correct the user and password in DATABASE_URL",
  unreachable: true,
};

const NO_URL = {
  message: "Cannot read DATABASE_URL: it is no URL of a Postgres",
  fix: "give postgres://user:password@host:5432/database, with special characters as %XX",
  unreachable: true,
};

const FROM_POSTGRES: Record<string, Explained> = {
  "42P01": NO_SCHEMA, // no such table
  "42703": NO_SCHEMA, // no such column
  "42883": NO_SCHEMA, // no such function
  "25006": {
    message: "Postgres takes no writes here",
    fix: "name the primary in DATABASE_URL, or take back default_transaction_read_only of the database or the role",
    unreachable: true,
  },
  "42501": {
    message: "The role in DATABASE_URL may not do this",
    fix: "use the one that applied the schema, or grant it what it lacks",
    unreachable: false,
  },
  "55P03": {
    message: "Somebody's open transaction keeps what this would change",
    fix: "let it end, and try again",
    unreachable: true,
  },
  "57014": {
    message: "Postgres gave this up, since it took too long",
    fix: "try again when Postgres has less to do, or ask for less at once",
    unreachable: true,
  },
  "28P01": NOT_LET_IN,
  "28000": NOT_LET_IN,
  "53100": {
    message: "Postgres cannot write: its disk is full",
    fix: "make room on the disk of its data",
    unreachable: true,
  },
  "53300": {
    message: "Postgres has no connection left for this",
    fix:
      "end what holds connections that it does not need, or raise max_connections, or the limit of the role or the database",
    unreachable: true,
  },
  "3D000": {
    message: "Cannot use this database",
    fix: "create it, or correct its name in DATABASE_URL",
    unreachable: true,
  },
};
