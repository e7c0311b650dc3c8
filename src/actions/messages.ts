/** Messages to runs, from applications, people and callback addresses: found, checked by the job's schema, allowed, and sent. */
import type { Actor } from "../access/audit.ts";
import { mayActAs, type UserRole } from "../access/users.ts";
import { schemaJson, unfitIn } from "../definitions/args_schema.ts";
import type { DeclaredMessage } from "../definitions/definition_rows.ts";
import { wordLike } from "../platform/shown.ts";
import type { Db } from "../postgres/connection.ts";
import { type MessageRefusal, MOST_UNREAD, sendMessage } from "../steps/run_messages.ts";
import type { UnknownKeys } from "../sync/unknown_keys.ts";
import { checkText, doNotFit, EnqueueError, jsonText, nameOf, type Refused } from "./args.ts";
import type { Job } from "../job.ts";

/** A run by its id, or by the job and the idempotency key with which it was enqueued. */
export type RunNamed = number | { job: Job | string; key: string };

export interface MessageSent {
  id: number;
  /** False: the dedupe key was used before, and this is the message of that time. */
  isNew: boolean;
}

export interface MessageSender {
  /** Kept with the message, such as "client", "user:ann" or "callback". */
  sent_by: string;
  dedupeKey?: string;
  /** Of somebody's act, which is audited. */
  by?: Actor;
  /** Of a user of the page or of a token: asked whether it may answer where people are asked. Undefined: a program that holds the database. */
  role?: UserRole;
  /** The sender holds a token of scope emit, and no more. */
  emit?: boolean;
  unknown?: UnknownKeys;
}

interface Addressee {
  id: number;
  name: string;
  messages: Record<string, DeclaredMessage>;
}

/** What people are asked, as the run's body has put it. */
export interface Prompt {
  ask?: string;
  show?: unknown;
  who?: string[];
  notBy?: string;
  remind?: number;
}

/** @throws EnqueueError when there is no such run, its job takes no such message, it does not fit, the run has ended or has too many unread */
export async function sendToRun(
  sql: Db,
  run: RunNamed,
  message: { name: string; payload: unknown },
  sender: MessageSender,
): Promise<MessageSent> {
  const { name, payload = null } = message;
  checkText("send a message", "its name", name);
  checkText(`send "${name}"`, "dedupeKey", sender.dedupeKey);
  const to = await addresseeOf(sql, run);
  checkMessage(to, name, payload, { emit: sender.emit, unknown: sender.unknown });
  if (sender.role) await checkMayAnswer(sql, to.id, name, { role: sender.role, sent_by: sender.sent_by });
  const { sent_by, dedupeKey: dedupe_key, by } = sender;
  const sent = await sendMessage(sql, { job_run_id: to.id, name, payload, dedupe_key, sent_by, by });
  if (!("refused" in sent)) return { id: sent.id, isNew: sent.is_new };
  throw refused(`send "${name}" to run ${to.id}`, to, sent.refused);
}

async function addresseeOf(sql: Db, run: RunNamed): Promise<Addressee> {
  const which = typeof run === "number"
    ? sql`r.id = ${run}`
    : sql`r.idempotency_key = 'enqueue:' || d.id || ':' || ${run.key} and d.name = ${nameOf(run.job)}`;
  const [found] = await sql<Addressee[]>`
    select r.id, d.name, d.messages from job_run r join job_definition d on d.id = r.job_definition_id where ${which}`;
  if (found) return found;
  const what = typeof run === "number"
    ? `run ${run}`
    : `a run of "${nameOf(run.job)}" with the key ${JSON.stringify(run.key)}`;
  throw new EnqueueError(`Cannot send a message to ${what}: there is none`, {
    why: "not_found",
    fix: "`deno task runs ls` shows the newest",
    says: { code: "none", what: typeof run === "number" ? String(run) : run.key },
  });
}

/**
 * Checks name and payload by what was synced last. `emit`: the sender holds a token of scope emit, and no more; `unknown` takes down keys
 * that the schema does not name. @throws EnqueueError
 */
export function checkMessage(
  job: Pick<Addressee, "name" | "messages">,
  name: string,
  payload: unknown,
  { emit = false, unknown }: { emit?: boolean; unknown?: UnknownKeys } = {},
): void {
  const what = `send ${JSON.stringify(name)} to a run of "${job.name}"`;
  const names = Object.keys(job.messages);
  const message = Object.hasOwn(job.messages, name) ? job.messages[name] : undefined;
  if (!message) {
    const like = wordLike(name, names);
    const takes = names.length === 0 ? "no messages; its file can name some: messages: { ... }" : names.join(", ");
    throw new EnqueueError(
      `Cannot ${what}: it takes no such message; ${like ? `did you mean "${like}"? ` : ""}it takes ${takes}`,
      { why: "not_found", says: { code: "no_such_message", job_name: job.name, names } },
    );
  }
  if (emit && message.from !== "emit") {
    throw new EnqueueError(
      `Cannot ${what}: a token of scope emit may not; take one of scope operate, or let it in the job's file: ` +
        `messages: { ${JSON.stringify(name)}: { schema, from: "emit" } }`,
      { says: { code: "message_not_for_emit", name } },
    );
  }
  jsonText({ what: `message ${JSON.stringify(name)}`, called: "payload" }, payload);
  const schema = message.schema === null ? null : JSON.stringify(message.schema);
  const unfit = unfitIn(schema, payload);
  if (unfit) throw doNotFit({ what: `${what}: the values of its payload`, code: "message_unfit" }, unfit);
  unknown?.look(schemaJson(schema), payload);
}

/** Where the run asks people now, those who are not asked may not answer, and least of all the one who must not. */
async function checkMayAnswer(
  sql: Db,
  job_run_id: number,
  name: string,
  sender: { role: UserRole; sent_by: string },
): Promise<void> {
  const prompts = await sql<{ prompt: Prompt }[]>`
    select prompt from run_step
     where job_run_id = ${job_run_id} and kind = 'message' and state = 'WAITING' and waits_for = ${name} and prompt is not null`;
  const user = userOf(sender.sent_by);
  for (const { prompt } of prompts) {
    if (prompt.notBy !== undefined && userOf(prompt.notBy) === user) {
      throw new EnqueueError(
        `Cannot answer "${name}" of run ${job_run_id}: ${user} must not answer it (notBy); ask somebody else`,
        {
          why: "conflict",
          says: { code: "not_yours_to_answer", who: user },
        },
      );
    }
    if (mayAnswer(prompt, { name: user, role: sender.role })) continue;
    const asked = prompt.who?.join(", ") ?? "";
    throw new EnqueueError(`Cannot answer "${name}" of run ${job_run_id}: it asks ${asked}, and not ${user}`, {
      why: "conflict",
      says: { code: "asks_others", who: asked },
    });
  }
}

/** Whether a user is one of those who are asked: by name, by a role that it may act as, or all operators where nobody is named. */
export function mayAnswer(prompt: Pick<Prompt, "who" | "notBy">, user: { name: string; role: UserRole }): boolean {
  if (prompt.notBy !== undefined && userOf(prompt.notBy) === user.name) return false;
  if (!prompt.who || prompt.who.length === 0) return mayActAs(user.role, "operator");
  return prompt.who.some((who) => {
    const role = /^role:(viewer|operator|admin)$/.exec(who)?.[1] as UserRole | undefined;
    return role ? mayActAs(user.role, role) : userOf(who) === user.name;
  });
}

export function userOf(name: string): string {
  return name.replace(/^user:/, "");
}

function refused(cannot: string, to: Addressee, why: MessageRefusal): Refused {
  switch (why.code) {
    case "unknown_run":
      return new EnqueueError(`Cannot ${cannot}: there is no such run`, {
        why: "not_found",
        says: { code: "none", what: String(to.id) },
      });
    case "ended":
      return new EnqueueError(`Cannot ${cannot}: it has ended as ${why.state}, so nothing would read it`, {
        why: "conflict",
        says: { code: "run_ended", state: why.state },
      });
    case "unknown_message":
      return new EnqueueError(`Cannot ${cannot}: its job takes ${why.known.join(", ") || "no messages"}`, {
        why: "not_found",
        says: { code: "no_such_message", job_name: to.name, names: why.known },
      });
    case "box_full":
      return new EnqueueError(
        `Cannot ${cannot}: ${MOST_UNREAD} messages wait there unread; send it when the run has taken some, or cancel the run`,
        { why: "conflict", says: { code: "unread_full", most: MOST_UNREAD } },
      );
  }
}
