/**
 * What the API says when it does not do what it was asked: `application/problem+json` (RFC 9457), with `fix`, what to do
 * about it, and `issues`, each place that is wrong. Nothing of an error that is ours to mend reaches the client, but the
 * `id` under which it is in the log.
 */
import { z } from "@hono/zod-openapi";
import { HTTPException } from "hono/http-exception";
import { observe } from "../../platform/facts.ts";
import { Refused } from "../../actions/args.ts";
import { TooManyAtOnce } from "../few_at_once.ts";
import { LogUnreadable } from "../../actions/run_log.ts";
import { isUnreachable } from "../../postgres/connection.ts";

/** All kinds: the last part of `type`, its status and title, and what to do where nothing better is known. */
export const KINDS = {
  malformed: { status: 400, title: "Not readable", fix: "send JSON (RFC 8259)" },
  unauthenticated: {
    status: 401,
    title: "Not authenticated",
    fix: "send an API token: Authorization: Bearer TOKEN; an admin makes one",
  },
  forbidden: { status: 403, title: "Not allowed", fix: "ask an admin for a token or a role that allows it" },
  not_found: {
    status: 404,
    title: "Not found",
    fix: "check its name or id; the list of its kind has those that exist",
  },
  slow: { status: 408, title: "Too slow", fix: "send the body at once" },
  conflict: { status: 409, title: "Not possible in its state", fix: "read it again, and decide by its state" },
  too_large: { status: 413, title: "Too large", fix: "send less at once" },
  media_type: { status: 415, title: "Not JSON", fix: "send Content-Type: application/json" },
  invalid: {
    status: 422,
    title: "Does not fit",
    fix: "correct what `issues` names; /api/v1/openapi.json says what fits",
  },
  too_many: { status: 429, title: "Too many requests", fix: "wait as long as Retry-After says" },
  failed: { status: 500, title: "Failed", fix: "look for this id in the log of the admin server" },
  archive: { status: 502, title: "Archive not readable", fix: "look at the archive of logs: deno task doctor" },
  unreachable: { status: 503, title: "Postgres is away", fix: "try again; if it stays away: deno task doctor" },
  late: { status: 504, title: "No answer in time", fix: "look whether there is a leader: GET /api/v1/leader" },
} as const;

export type Kind = keyof typeof KINDS;

export interface Issue {
  /** Where: "args.tenant", "limit"; empty: the whole. */
  path: string;
  message: string;
}

export class ApiProblem extends Error {
  override name = "Problem";
  constructor(readonly kind: Kind, message: string, readonly more: { fix?: string; issues?: readonly Issue[] } = {}) {
    super(message);
  }
}

export const ProblemSchema = z.object({
  type: z.string().openapi({ description: "What kind, stable", example: "urn:dandori:problem:not_found" }),
  title: z.string().openapi({ example: "Not found" }),
  status: z.int().openapi({ example: 404 }),
  detail: z.string().openapi({
    description: "What happened, to what, and why",
    example: 'Cannot find run "812": there is none',
  }),
  fix: z.string().openapi({ description: "What to do about it" }),
  issues: z.array(z.object({ path: z.string(), message: z.string() })).optional().openapi({
    description: "Each place that does not fit",
    example: [{ path: "args.tenant", message: "Invalid input: expected string, received number" }],
  }),
  id: z.string().optional().openapi({ description: "Of a failure of the server, in its log" }),
}).openapi("Problem");

export function answerProblem(problem: ApiProblem, id?: string): Response {
  const { status, title, fix } = KINDS[problem.kind];
  const { issues } = problem.more;
  const body = {
    type: `urn:dandori:problem:${problem.kind}`,
    title,
    status,
    detail: problem.message,
    fix: problem.more.fix ?? fix,
    issues: issues && issues.length > 0 ? issues : undefined,
    id,
  };
  const headers = new Headers({ "content-type": "application/problem+json", "cache-control": "no-store" });
  if (status === 401) headers.set("www-authenticate", "Bearer");
  if (status === 429) headers.set("retry-after", "60"); // by then another minute has begun
  if (status === 503) headers.set("retry-after", "1");
  return new Response(JSON.stringify(body), { status, headers });
}

/** Of anything that was thrown. */
export function answerError(error: unknown, request: Request): Response {
  if (error instanceof ApiProblem) return answerProblem(error);
  if (error instanceof Refused) {
    return answerProblem(new ApiProblem(error.why, error.message, { issues: error.issues }));
  }
  if (error instanceof TooManyAtOnce) {
    return answerProblem(new ApiProblem("too_many", error.message, { fix: "ask for one after another" }));
  }
  if (error instanceof LogUnreadable) {
    return answerProblem(new ApiProblem("archive", error.message, { fix: error.fix }));
  }
  if (error instanceof HTTPException) return answerProblem(fromHono(error));
  if (isSenderGone(error)) return answerProblem(new ApiProblem("malformed", "Cannot read the body: it was cut off"));
  const id = crypto.randomUUID();
  const what = `${request.method} ${new URL(request.url).pathname}`;
  observe("admin.failed", { id, request: what, error: String((error as Error)?.message ?? error) });
  if (isUnreachable(error)) {
    return answerProblem(new ApiProblem("unreachable", "Cannot reach Postgres, or it could not do this in time"), id);
  }
  return answerProblem(new ApiProblem("failed", "Cannot do this: the server failed"), id);
}

/** As Deno says it of a connection that ended within a request's body: nobody is there to read the answer, and nothing has failed here. */
function isSenderGone(error: unknown): boolean {
  return error instanceof Deno.errors.BadResource && /^Cannot read (request )?body/.test(error.message);
}

function fromHono(error: HTTPException): ApiProblem {
  const kind = Object.entries(KINDS).find(([, { status }]) => status === error.status)?.[0] as Kind | undefined;
  if (kind === "malformed") return new ApiProblem(kind, "Cannot read the body: it is not JSON");
  if (kind === "media_type") {
    return new ApiProblem(kind, "Cannot read the body: its Content-Type is not application/json");
  }
  return new ApiProblem(kind ?? "failed", error.message);
}

/** From the first of zod's issues, all of them in order. */
export function invalid(error: z.ZodError, part: string): ApiProblem {
  const issues = error.issues.flatMap(issuesOf).map(({ path, message }) => ({
    path: [...(part === "json" ? [] : [part]), ...path].join("."),
    message,
  }));
  const text = issues.map(({ path, message }) => path ? `${path}: ${message}` : message).join("; ");
  return new ApiProblem("invalid", `Cannot use this request: ${text}`, { issues });
}

/** A key that nobody knows is an issue at that key. */
function issuesOf(issue: z.core.$ZodIssue): { path: string[]; message: string }[] {
  const path = issue.path.map(String);
  if (issue.code !== "unrecognized_keys") return [{ path, message: issue.message }];
  return issue.keys.map((key) => ({ path: [...path, key], message: "there is no such field" }));
}
