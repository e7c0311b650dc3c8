/** A filter of a list. It is a form that asks for the same page, so that a filter is a URL: to keep, to send, to go back to. */
import type { Child } from "hono/jsx";
import { link, type RequestContext } from "../request_context.ts";
import { timeText } from "./time.tsx";
import { t } from "../../locale/locale.ts";

/** `more`: fields that are rarely used; they are open while one of them is set. */
export function Filters(
  { on, children, more, more_set, any_set }: {
    on: RequestContext;
    children?: Child;
    more?: Child;
    more_set?: boolean;
    any_set: boolean;
  },
) {
  return (
    <form class="filters" method="get" action={link(on, on.path)} data-submits="">
      {children}
      {more && (
        <details open={more_set}>
          <summary>{t(on, "filters.more")}</summary>
          <div class="fields">{more}</div>
        </details>
      )}
      <div class="buttons">
        <button type="submit">{t(on, "filters.show")}</button>
        {any_set && <a class="button quiet" href={link(on, on.path)}>{t(on, "filters.clear")}</a>}
      </div>
    </form>
  );
}

/** `list`: what can be chosen, offered while typing. */
export function TextField(
  { label, name, value, list }: { label: string; name: string; value?: string | null; list?: string[] },
) {
  const list_id = list && `list-${name}`;
  return (
    <label>
      {label}
      <input name={name} value={value ?? ""} list={list_id} autocomplete="off" spellcheck={false} />
      {list && <datalist id={list_id}>{list.map((one) => <option value={one} />)}</datalist>}
    </label>
  );
}

/** A time on the viewer's wall, to the minute; the zone is named, since the URL is not always read by who made it. */
export function TimeField(
  { on, label, name, value }: { on: RequestContext; label: string; name: string; value?: Date },
) {
  const wall = value && timeText(value, on.zone).slice(0, 16).replace(" ", "T");
  return (
    <label>
      {label} ({on.zone})
      <input type="datetime-local" name={name} value={wall ?? ""} />
    </label>
  );
}

export function Choice(
  { on, label, name, value, options, none }: {
    on: RequestContext;
    label: string;
    name: string;
    value?: string | null;
    options: { value: string; text: string }[];
    /** What it is to choose none of them, unless that is "any". */
    none?: string;
  },
) {
  return (
    <label>
      {label}
      <select name={name}>
        <option value="">{none ?? t(on, "filters.any")}</option>
        {options.map((one) => <option value={one.value} selected={one.value === value}>{one.text}</option>)}
      </select>
    </label>
  );
}

/** Several at once, each a button that stays down. */
export function Chips(
  { label, name, chosen, options }: {
    label: string;
    name: string;
    chosen: readonly string[];
    options: readonly string[];
  },
) {
  return (
    <fieldset class="chips">
      <legend>{label}</legend>
      {options.map((one) => (
        <label>
          <input type="checkbox" name={name} value={one} checked={chosen.includes(one)} />
          <span>{one}</span>
        </label>
      ))}
    </fieldset>
  );
}
