/** What the forms have in common that set something beside a job's file: how they look, and what comes of them. */
import type { Child } from "hono/jsx";
import { Refused } from "../../../actions/args.ts";
import { type Changed, setOptions } from "../../../actions/job_actions.ts";
import type { Json } from "../../../job.ts";
import { refusalText } from "../../refusals.ts";
import { complaintsText } from "../../parts/complaint_text.ts";
import { Foot } from "../../parts/dialog.tsx";
import { Problem } from "../../parts/notes.tsx";
import {
  type ActionContext,
  type Done,
  link,
  type Page,
  PageError,
  type RequestContext,
} from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

interface SetForm {
  title: string;
  heading: string;
  lead: string;
  /** Where it goes, from the base on. */
  action: string;
  problem: string | undefined;
  fields: Child;
}

export function setForm(on: RequestContext, { title, heading, lead, action, problem, fields }: SetForm): Page {
  const { name = "" } = on.params;
  return {
    title,
    status: problem === undefined ? undefined : 400,
    body: (
      <form class="form" method="post" action={link(on, action)}>
        <h1>
          {heading}{" "}
          <small>
            <a href={link(on, `/jobs/${name}`)}>{name}</a>
          </small>
        </h1>
        <p class="lead">{lead}</p>
        {problem && <Problem title={t(on, "jobs.cannot_set")} text={problem} />}
        {fields}
        <Foot on={on} back={link(on, `/jobs/${name}`)} verb={t(on, "jobs.save")} />
      </form>
    ),
  };
}

/** In a form: what its box held when the form was made. */
export function wasName(name: string): string {
  return `was.${name}`;
}

/** All of them or none; `form`: as it was sent, to say what is wrong with it. */
export async function setBeside(
  on: ActionContext,
  wishes: Record<string, Json>,
  form: (problem: string) => Page,
): Promise<Done | Page> {
  const { name = "" } = on.params;
  let items: Changed[];
  try {
    items = await on.perform(setOptions, { name, values: wishes });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.says.code === "none") throw new PageError(404);
    return form(
      error.says.code === "options" ? complaintsText(on.lang, [...error.says.complaints]) : refusalText(on.lang, error),
    );
  }
  const changed = items.map((one) => one.name).join(", ");
  return {
    to: `/jobs/${name}`,
    text: changed === "" ? t(on, "jobs.set_nothing") : t(on, "jobs.set_done", { names: changed }),
  };
}
