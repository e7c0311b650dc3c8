/**
 * All settings with their values. Changing is in two steps, both with a URL: a group opened for typing (`?edit=leader`), and
 * what would be changed (`?leader_tick_seconds=2`), which says what is wrong with it before anybody can apply it.
 */
import {
  DEFAULT_SETTINGS,
  isWhole,
  listSettings,
  problemsAfter,
  type Relation,
  RELATIONS,
  type SettingProblem,
  type SettingsChange,
  type SettingView,
} from "../../../settings/settings.ts";
import { Badge } from "../../parts/badge.tsx";
import { Back, Csrf, ReasonField } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { Problem } from "../../parts/notes.tsx";
import { Table } from "../../parts/table.tsx";
import { Nothing, Time } from "../../parts/time.tsx";
import { link, may, type Page, type RequestContext } from "../../request_context.ts";
import { ABOUT, type Group, GROUP_NAMES, GROUPS, unitOf } from "./about.ts";
import { changeQuery, DEFAULT, wantedChange } from "./wanted.ts";
import { problemText, ruleText } from "./problem_text.ts";
import { t } from "../../../locale/locale.ts";

export async function showSettings(on: RequestContext): Promise<Page> {
  const stored = await listSettings(on.sql);
  const change = wantedChange(on.query, stored);
  const asked = may(on, "admin") && Object.keys(change).length > 0;
  const editing = may(on, "admin") && !asked ? GROUPS.find((group) => group === on.query.get("edit")) : undefined;
  const [wrong, problems] = await Promise.all([problemsAfter(on.sql, {}), asked ? problemsAfter(on.sql, change) : []]);
  return {
    title: t(on, "settings.title"),
    body: (
      <>
        <div class="heading">
          <h1>{t(on, "settings.title")}</h1>
          <a class="button quiet" href={link(on, "/audit", { "target-type": "setting" })}>
            {t(on, "settings.history")}
          </a>
        </div>
        <p class="nothing">{t(on, "settings.live")}</p>
        {wrong.length > 0 && (
          <Problem
            title={t(on, "settings.wrong")}
            text={wrong.map((one) => problemText(on.lang, one)).join("\n")}
          />
        )}
        {asked && <Review on={on} stored={stored} change={change} problems={problems} />}
        {editing && <Edit on={on} group={editing} stored={stored} />}
        <Live on={on} id="settings" topics={["settings"]}>
          {GROUPS.map((group) => <GroupTable on={on} group={group} stored={stored} />)}
        </Live>
      </>
    ),
  };
}

function GroupTable({ on, group, stored }: { on: RequestContext; group: Group; stored: SettingView[] }) {
  const rows = stored.filter(({ name }) => ABOUT[name].group === group);
  return (
    <section>
      <div class="heading">
        <h2>{GROUP_NAMES[group][on.lang]}</h2>
        {may(on, "admin") && (
          <a class="button" href={`${link(on, "/settings", { edit: group })}#edit`}>{t(on, "settings.change")}</a>
        )}
      </div>
      <Table
        label={GROUP_NAMES[group][on.lang]}
        rows={rows}
        columns={[
          { head: t(on, "settings.setting"), kind: "main", cell: (one) => <Name on={on} setting={one} /> },
          { head: t(on, "settings.value"), cell: (one) => <Value on={on} setting={one} /> },
          { head: t(on, "settings.usual"), kind: "wide", cell: (one) => withUnit(on, one.name, one.default) },
          { head: t(on, "settings.bounds"), kind: "wide", cell: (one) => boundsOf(one) },
          { head: t(on, "settings.changed"), kind: "wide", cell: (one) => <Changed on={on} setting={one} /> },
        ]}
      />
      <Rules on={on} rows={rows} />
    </section>
  );
}

function Name({ on, setting }: { on: RequestContext; setting: SettingView }) {
  return (
    <div class="setting" id={setting.name}>
      <code>{setting.name}</code>
      <span>{on.lang === "ja" ? ABOUT[setting.name].ja : setting.about}</span>
    </div>
  );
}

function Value({ on, setting }: { on: RequestContext; setting: SettingView }) {
  const text = withUnit(on, setting.name, setting.value);
  return setting.updated_at ? <Badge tone="warn" sign="≠" text={text} /> : <span class="number">{text}</span>;
}

function Changed({ on, setting }: { on: RequestContext; setting: SettingView }) {
  if (!setting.updated_at) return <Nothing />;
  return (
    <span class="changed">
      <span>{setting.updated_by}</span> <Time on={on} at={setting.updated_at} />
      {may(on, "admin") && <a href={link(on, "/settings", { [setting.name]: DEFAULT })}>{t(on, "settings.reset")}</a>}
    </span>
  );
}

function withUnit(on: RequestContext, name: string, value: unknown): string {
  return `${typeof value === "object" ? JSON.stringify(value) : value} ${unitOf(name, on.lang)}`.trim();
}

function boundsOf({ least, most, choices }: SettingView): string {
  return choices ? choices.join(", ") : `${least} … ${most}`;
}

function Rules({ on, rows }: { on: RequestContext; rows: SettingView[] }) {
  const rules = RELATIONS.filter(({ of }: Relation) => rows.some(({ name }) => name === of));
  if (rules.length === 0) return null;
  return (
    <details>
      <summary>{t(on, "settings.relations")}</summary>
      <ul class="rules">
        {rules.map((rule) => (
          <li>
            <code>{ruleText(on.lang, rule)}</code>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Edit({ on, group, stored }: { on: RequestContext; group: Group; stored: SettingView[] }) {
  const rows = stored.filter(({ name }) => ABOUT[name].group === group);
  return (
    <section id="edit">
      <h2>{GROUP_NAMES[group][on.lang]}</h2>
      <form method="post" action={link(on, "/settings/review")} class="edit">
        <div class="fields">{rows.map((one) => <Field on={on} setting={one} />)}</div>
        <Rules on={on} rows={rows} />
        <Csrf on={on} />
        <div class="buttons">
          <button type="submit" class="primary">{t(on, "settings.review")}</button>
          <Back on={on} to={link(on, "/settings")} />
        </div>
      </form>
    </section>
  );
}

function Field({ on, setting }: { on: RequestContext; setting: SettingView }) {
  const { name, value, least, most, choices } = setting;
  const hint = `${boundsOf(setting)} ${unitOf(name, on.lang)} · ${t(on, "settings.usual")} ${setting.default}`;
  return (
    <label>
      {name}
      {choices
        ? <select name={name}>{choices.map((one) => <option selected={one === value}>{one}</option>)}</select>
        : (
          <input
            type="number"
            name={name}
            value={String(value)}
            min={least ?? undefined}
            max={most ?? undefined}
            step={isWhole(name) ? 1 : "any"}
            placeholder={String(setting.default)}
          />
        )}
      <small>{hint}</small>
    </label>
  );
}

function Review(
  { on, stored, change, problems }: {
    on: RequestContext;
    stored: SettingView[];
    change: SettingsChange;
    problems: SettingProblem[];
  },
) {
  const rows = stored.filter(({ name }) => Object.hasOwn(change, name));
  const group = ABOUT[rows[0]?.name ?? "dispatch"].group;
  return (
    <section id="review" class="review">
      <h2>{t(on, "settings.review_title")}</h2>
      <Table
        label={t(on, "settings.review_title")}
        rows={rows}
        columns={[
          { head: t(on, "settings.setting"), kind: "main", cell: (one) => <Name on={on} setting={one} /> },
          { head: t(on, "settings.from_now"), cell: (one) => withUnit(on, one.name, one.value) },
          { head: t(on, "settings.then"), cell: (one) => <strong>{thenText(on, one, change)}</strong> },
        ]}
      />
      {problems.length > 0 && (
        <Problem
          title={t(on, "settings.cannot")}
          text={problems.map((one) => problemText(on.lang, one)).join("\n")}
        />
      )}
      <form method="post" action={link(on, "/settings")} class="edit">
        <Csrf on={on} />
        {rows.map(({ name, value }) => (
          <>
            <input type="hidden" name={name} value={changeQuery(change)[name]} />
            <input type="hidden" name={`was.${name}`} value={JSON.stringify(value)} />
          </>
        ))}
        {problems.length === 0 && (
          <>
            <p>{t(on, "settings.review_text")}</p>
            <ReasonField on={on} />
          </>
        )}
        <div class="buttons">
          {problems.length === 0 && <button type="submit" class="primary">{t(on, "settings.apply")}</button>}
          <Back on={on} to={`${link(on, "/settings", { edit: group })}#edit`} />
        </div>
      </form>
    </section>
  );
}

function thenText(on: RequestContext, { name }: SettingView, change: SettingsChange): string {
  const value = change[name];
  if (value !== null) return withUnit(on, name, value);
  return `${withUnit(on, name, DEFAULT_SETTINGS[name])} (${t(on, "settings.to_default")})`;
}
