/**
 * An act on all runs that a filter means. First a page says how many these are and shows some of them; what is then done is
 * done to those alone that were there when it was opened.
 */
import {
  cancelMany,
  type ManyAct,
  meantBy,
  type MeantRuns,
  reprioritizeMany,
  retryMany,
} from "../../../actions/many_runs.ts";
import { countRuns } from "../../../runs/run_search.ts";
import { findRuns } from "../../../runs/run_view.ts";
import { numberField, orForm, Unusable, wishOf } from "../../form_actions.ts";
import { Back, Foot } from "../../parts/dialog.tsx";
import { Code, Empty, Problem } from "../../parts/notes.tsx";
import { Table } from "../../parts/table.tsx";
import {
  type ActionContext,
  type Done,
  field,
  link,
  type Page,
  PageError,
  type RequestContext,
  typedIn,
} from "../../request_context.ts";
import { wantedRuns } from "./filter.ts";
import { columnsOf } from "./list.tsx";
import { t } from "../../../locale/locale.ts";

type Verb = ManyAct["verb"];
const VERBS: readonly Verb[] = ["cancel", "retry", "reprioritize"];
const EXAMPLES = 5;
/** More are "10,000+": counting a million would take longer than anybody looks. */
const COUNT_UP_TO = 10_000;

export function showMany(on: RequestContext): Promise<Page> {
  return manyPage(on, { verb: verbOf(on.query.get("verb")), at: on.now });
}

function verbOf(text: string | null): Verb {
  const verb = VERBS.find((one) => one === text);
  if (!verb) throw new PageError(400);
  return verb;
}

/** What the URL says, of what had been made by then. */
function meantAt(on: RequestContext, at: Date): MeantRuns {
  const { states, ids, ...filter } = wantedRuns({ ...on, now: at }).filter;
  return { ...filter, until: at, ...states && { states: [...states] }, ...ids && { ids: [...ids] } };
}

async function manyPage(on: RequestContext, { verb, at }: { verb: Verb; at: Date }, wrong?: string): Promise<Page> {
  const filter = meantAt(on, at);
  const [counted, { runs: examples }] = await Promise.all([
    countRuns(on.sql, meantBy(filter, verb), { most: COUNT_UP_TO }),
    findRuns(on.sql, { ...meantBy(filter, verb), most: EXAMPLES }),
  ]);
  const nothing = counted.runs === 0 && !counted.more;
  const count = counted.runs === 0 && counted.more
    ? t(on, "runs.many_uncounted")
    : `${counted.runs.toLocaleString("en-US")}${counted.more ? "+" : ""}`;
  const title = t(on, `runs.many_${verb}.title`, { n: count });
  const conditions = new URLSearchParams([...on.query].filter(([name]) => name !== "verb"));
  const back = link(on, "/runs", conditions);
  return {
    title,
    body: (
      <>
        <h1>{title}</h1>
        {wrong && <Problem title={wrong} />}
        <Code
          value={conditions.size > 0
            ? [...conditions].map((pair) => pair.join(" = ")).join("\n")
            : t(on, "runs.many_all")}
        />
        {nothing
          ? (
            <Empty text={t(on, `runs.many_${verb}.none`)}>
              <Back on={on} to={back} />
            </Empty>
          )
          : (
            <>
              <p>
                {t(on, `runs.many_${verb}.text`)}{" "}
                {examples.length > 0
                  ? t(on, "runs.many_examples", { n: examples.length })
                  : t(on, "runs.many_none_near")}
              </p>
              {examples.length > 0 && <Table columns={columnsOf(on)} rows={examples} label={t(on, "runs.runs")} />}
              <form class="start narrow-form" method="post" action={link(on, "/runs/many", on.query)}>
                {verb === "reprioritize" && (
                  <label>
                    {t(on, "runs.priority_hint")}
                    <input type="number" name="priority" min={0} max={999} required value={typedIn(on, "priority")} />
                  </label>
                )}
                <input type="hidden" name="wish" value={crypto.randomUUID()} />
                <input type="hidden" name="at" value={at.getTime()} />
                <Foot
                  on={on}
                  back={back}
                  verb={t(on, `runs.many_${verb}.verb`, { n: count })}
                  danger={verb === "cancel"}
                />
              </form>
            </>
          )}
      </>
    ),
  };
}

/** So long is a page that asks believed; then what it showed is too old. */
const LONGEST_LOOK_MS = 3_600_000;

export async function doMany(on: ActionContext): Promise<Done | Page> {
  const verb = verbOf(on.query.get("verb"));
  const at = new Date(Number(field(on.form, "at")));
  const age_ms = on.now.getTime() - at.getTime();
  if (!(age_ms >= 0 && age_ms < LONGEST_LOOK_MS)) throw new PageError(400, t(on, "runs.many_old"));
  return await orForm(on, (wrong) => manyPage(on, { verb, at }, wrong), async () => {
    const ids = await performOn(on, meantAt(on, at), verb);
    const conditions = new URLSearchParams([...on.query].filter(([name]) => name !== "verb"));
    const to = `/runs${conditions.size > 0 ? `?${conditions}` : ""}`;
    return { to, text: t(on, `runs.many_${verb}.done`, { n: ids.length.toLocaleString("en-US") }) };
  });
}

function performOn(on: ActionContext, filter: MeantRuns, verb: Verb): Promise<number[]> {
  if (verb === "cancel") return on.perform(cancelMany, { filter });
  if (verb === "retry") return on.perform(retryMany, { filter, wish: wishOf(on) });
  const label = t(on, "runs.priority");
  const priority = numberField(on, "priority", { from: 0, to: 999, whole: true, label });
  if (priority === undefined) throw new Unusable(t(on, "runs.priority_hint"));
  return on.perform(reprioritizeMany, { filter, priority });
}
