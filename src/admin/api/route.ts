/**
 * How a route is declared: what it needs, what it takes, what it gives, which problems it knows. One declaration makes the
 * guard, the checks and the OpenAPI document; there is no other way to add a route, so none is without its guard.
 */
import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import type { MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import type { Archive } from "../../archive/archive.ts";
import type { Config } from "../../platform/config.ts";
import { type Action, perform, text } from "../../actions/action.ts";
import type { Sql } from "../../postgres/connection.ts";
import { FewAtOnce } from "../few_at_once.ts";
import { BodyRefused, OF_STRANGERS, readBody } from "../body.ts";
import { type ApiEnv, type CallerOf, guard, type RequiredScope } from "./access.ts";
import { answerError, ApiProblem, invalid, type Kind, KINDS, ProblemSchema } from "./problem.ts";
import { inEnglish } from "../../locale/english.ts";
import { stored } from "../../locale/message.ts";

export interface ApiDeps {
  sql: Sql;
  callerOf: CallerOf;
  /** To tell workers at once that they are detached; without it they learn with their next renewal. */
  redis?: Pick<Config, "redis_url" | "redis_prefix">;
  /** Of old logs. */
  archive?: Archive;
  /** So long may a body take that a route reads itself; default that of strangers. */
  body_ms?: number;
}

type Shape = z.ZodObject;
type Out<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined;

export interface Spec<P extends Shape | undefined, Q extends Shape | undefined, B extends z.ZodType | undefined> {
  /** Of what only reads. */
  needs?: RequiredScope;
  /** Of what writes: its scope is needed, and its words are the summary where no other is given. */
  does?: Action;
  /** The path from /api/v1 on, such as /runs/{id}. */
  route: `${"GET" | "POST" | "PUT" | "PATCH" | "DELETE"} /${string}`;
  summary?: string;
  description?: string;
  /** A caller can make it long: two at once, and 429 for more. */
  costly?: true;
  params?: P;
  query?: Q;
  body?: B;
  /** The body may be left out. */
  body_optional?: true;
  /** Any JSON, which the route reads and checks itself: `bytes`. */
  body_as_it_comes?: true;
  headers?: Shape;
  /** Bytes; default 1 MB. */
  largest_body?: number;
  /** Success, by status. */
  answers: Record<number, { description: string; schema?: z.ZodType }>;
  /** Besides those that every route has. */
  problems?: readonly Kind[];
}

export interface Ask<P, Q, B> {
  deps: ApiDeps;
  sql: Sql;
  /** For the audit; "" on routes that need nobody. */
  actor: string;
  params: P;
  query: Q;
  /** Without the reason, which `perform` gives to the act. */
  body: Omit<B, "reason">;
  /** Does what the route says that it does. @throws Refused */
  perform<Input extends z.ZodObject, Result>(act: Action<Input, Result>, input: z.input<Input>): Promise<Result>;
  /** By their names in small letters. */
  header(name: string): string | undefined;
  /** The body as it came, of a route that declares no other. */
  bytes(): Promise<Uint8Array>;
}

export type RouteResult = readonly [status: number, value?: unknown];

const LARGEST_BODY = 1_000_000;

export class Api {
  readonly app = new OpenAPIHono<ApiEnv>({
    defaultHook: (result) => {
      if (!result.success) throw invalid(result.error as z.ZodError, result.target);
    },
  });
  readonly #deps: ApiDeps;
  readonly #few = new FewAtOnce();
  #tag = "";

  constructor(deps: ApiDeps) {
    this.#deps = deps;
    this.app.onError((error, c) => answerError(error, c.req.raw));
  }

  /** Routes that are added from here on stand under this tag in the document. */
  tagged(tag: string): this {
    this.#tag = tag;
    return this;
  }

  /** At /openapi.json: all routes that were added before. */
  addDocument(info: { title: string; version: string; description: string }): void {
    let document: unknown;
    this.tagged("document").route({
      needs: "nothing",
      route: "GET /openapi.json",
      summary: "This document",
      answers: { 200: { description: "OpenAPI 3.1", schema: z.looseObject({ openapi: z.string() }) } },
    }, () => Promise.resolve([200, document ??= documentOf(this.app, info)]));
  }

  route<
    P extends Shape | undefined = undefined,
    Q extends Shape | undefined = undefined,
    B extends z.ZodType | undefined = undefined,
  >(spec: Spec<P, Q, B>, act: (ask: Ask<Out<P>, Out<Q>, Out<B>>) => Promise<RouteResult>): void {
    const needs = spec.does?.needs ?? spec.needs;
    if (needs === undefined) throw new TypeError(`${spec.route} says neither what it needs nor what it does`);
    const { body_ms = OF_STRANGERS.ms } = this.#deps;
    const most = spec.largest_body ?? LARGEST_BODY;
    const limited = bodyLimit({ maxSize: most, onError: () => tooLarge(spec) });
    const route = createRoute({
      ...documented(spec, { tag: this.#tag, needs }),
      middleware: [
        guard(needs, this.#deps.callerOf),
        ...spec.body_as_it_comes ? [] : [limited],
        ...spec.body ? [inUtf8] : [],
      ],
    });
    this.app.openapi(route, async (c) => {
      const valid = (part: string) => c.req.valid(part as never);
      const { reason, ...body } = valid("json") as { reason?: string } ?? {};
      const query = valid("query") as { reason?: string } | undefined;
      const caller = {
        ...{ sql: this.#deps.sql, redis: this.#deps.redis, actor: c.get("actor"), allows: c.get("allows") },
        ...{ reason: reason ?? query?.reason, unreasoned: stored("reason.api") },
      };
      const bounded = (work: () => Promise<RouteResult>) => {
        return spec.costly ? this.#few.run(c.get("actor"), work) : work();
      };
      const [status, value] = await bounded(() =>
        act({
          deps: this.#deps,
          sql: this.#deps.sql,
          actor: c.get("actor"),
          params: valid("param") as Out<P>,
          query: query as Out<Q>,
          body: body as Omit<Out<B>, "reason">,
          perform: (act, input) => {
            if (act !== spec.does) throw new TypeError(`${spec.route} does not say that it does ${act.name}`);
            return perform(act, caller, input);
          },
          header: (name) => c.req.header(name),
          bytes: () =>
            readBody(c.req.raw, { bytes: most, ms: body_ms }).catch((error) =>
              throwProblem(error, { ...spec, body_ms })
            ),
        })
      );
      const headers = { "content-type": "application/json", "cache-control": "no-store" };
      return new Response(value === undefined ? null : JSON.stringify(inEnglish(value, { messages: true })), {
        status,
        headers,
      }) as never;
    });
  }
}

/** OpenAPI 3.1. Its one server is named from the document on, so it holds behind any path. */
function documentOf(app: OpenAPIHono<ApiEnv>, info: { title: string; version: string; description: string }) {
  app.openAPIRegistry.registerComponent("securitySchemes", "token", {
    type: "http",
    scheme: "bearer",
    description: "An API token, made by an admin. Its scopes: read; emit; operate, which includes both; admin, all",
  });
  app.openAPIRegistry.registerComponent("securitySchemes", "session", {
    type: "apiKey",
    in: "cookie",
    name: "dandori_session",
    description:
      "Of the admin page itself; behind https its name begins with __Host-. A viewer may read, an operator operate, an admin all",
  });
  return app.getOpenAPI31Document({ openapi: "3.1.0", info, servers: [{ url: "../v1" }] });
}

function sentence(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/**
 * What a route takes of an act: its fields, but for those of its path (`without`), and the reason. `instead`: fields that come in
 * another form, such as an instant as text, which the route makes of it.
 */
export function bodyOf<
  Fields extends z.ZodRawShape,
  Without extends keyof Fields = never,
  Instead extends Shapes = NoFields,
>(
  act: Action<z.ZodObject<Fields>, unknown>,
  { without = [], instead }: { without?: readonly Without[]; instead?: Instead } = {},
): z.ZodObject<Omit<Fields, Without | keyof Instead> & Instead & { reason: Reason }, z.core.$strict> {
  const fields = Object.entries(act.input.shape).filter(([name]) => !without.includes(name as Without));
  const reason = act.reason === "required" ? text(500) : text(500).optional();
  const said = reason.openapi({ description: "Why: kept in the audit", example: "license server down" });
  return z.strictObject({ ...Object.fromEntries(fields), ...instead, reason: said }) as never;
}

type Shapes = Record<string, z.ZodType>;
type NoFields = Record<never, z.ZodType>;
type Reason = z.ZodOptional<z.ZodString>;

function tooLarge(spec: { largest_body?: number }): never {
  throw new ApiProblem(
    "too_large",
    `Cannot take this body: it has more than ${spec.largest_body ?? LARGEST_BODY} bytes`,
  );
}

function throwProblem(error: unknown, spec: { largest_body?: number; body_ms: number }): never {
  if (!(error instanceof BodyRefused)) throw error;
  if (error.status === 413) tooLarge(spec);
  throw new ApiProblem("slow", `Cannot read the body: it did not come within ${spec.body_ms / 1000} s`);
}

/** JSON is UTF-8 (RFC 8259); of anything else the validator would make other characters, and store those. */
const inUtf8: MiddlewareHandler<ApiEnv> = async (c, next) => {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(await c.req.arrayBuffer());
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new ApiProblem("malformed", "Cannot read the body: it is not JSON in UTF-8");
  }
  await next();
};

function documented<P extends Shape | undefined, Q extends Shape | undefined, B extends z.ZodType | undefined>(
  spec: Spec<P, Q, B>,
  { tag, needs }: { tag: string; needs: RequiredScope },
) {
  const { does, description, params, query, body, headers, answers } = spec;
  const summary = spec.summary ?? sentence(does?.does ?? "");
  const [verb = "", path = ""] = spec.route.split(" ");
  const method = verb.toLowerCase() as "get" | "post" | "put" | "patch" | "delete";
  const kinds: Kind[] = [
    ...needs === "nothing" ? [] : ["unauthenticated", "forbidden"] as const,
    ...params || query || body || headers ? ["invalid"] as const : [],
    ...spec.body_as_it_comes ? ["slow"] as const : [],
    ...body || spec.body_as_it_comes ? ["malformed", "too_large", "media_type"] as const : [],
    ...spec.problems ?? [],
    ...spec.costly ? ["too_many"] as const : [],
    "failed",
    "unreachable",
  ];
  return {
    operationId: `${method}_${path}`.replace(/[^a-z]+/g, "_").replace(/_$/, ""),
    method,
    path,
    tags: [tag],
    summary,
    description,
    "x-needs": needs,
    security: needs === "nothing" ? [] : [{ token: [needs] }, { session: [needs] }] as Record<string, string[]>[],
    request: {
      params,
      query,
      headers,
      ...body ? { body: { required: !spec.body_optional, content: { "application/json": { schema: body } } } } : {},
      ...spec.body_as_it_comes ? { body: { required: true, content: { "application/json": { schema: {} } } } } : {},
    },
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, { description, schema }]) => [
          status,
          { description, ...schema ? { content: { "application/json": { schema } } } : {} },
        ]),
      ),
      ...Object.fromEntries(
        kinds.sort((a, b) => KINDS[a].status - KINDS[b].status).map((kind) => [
          KINDS[kind].status,
          { description: KINDS[kind].title, content: { "application/problem+json": { schema: ProblemSchema } } },
        ]),
      ),
    },
  };
}
