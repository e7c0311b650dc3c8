/** Draws a form of args: a box for each field with what is wrong beside it, or one box for all of them as JSON. */
import type { Json } from "../../job.ts";
import { link, type RequestContext } from "../request_context.ts";
import { countKey, countOf, type Draft, type Problems, textKey } from "./draft.ts";
import { below, type Field } from "./fields.ts";
import { t } from "../../locale/locale.ts";

export interface ArgsState {
  /** Undefined: there is nothing that could be drawn, and JSON is the only way. */
  field: Field | undefined;
  /** The fields as they are; undefined: it is written as JSON. */
  draft: Draft | undefined;
  json: string;
  problems: Problems;
}

/** Stands inside a form that goes to `action`; its own buttons (add, remove, switch) send that form there as well. */
export function ArgsFields(
  { on, args, action, legend = t(on, "args.args") }: {
    on: RequestContext;
    args: ArgsState;
    action: string;
    legend?: string;
  },
) {
  const { field, draft, problems } = args;
  const whole = draft
    ? problems.get("") ?? []
    : [...problems].flatMap(([path, texts]) => texts.map((text) => path ? `${path}: ${text}` : text));
  const drawing = draft && { on, draft, problems, action };
  const none = field?.kind === "object" && field.fields.length === 0;
  return (
    <fieldset id="args" class="args">
      <legend>{legend}</legend>
      <Wrong id="args" texts={whole} />
      {drawing && field
        ? none ? <p class="nothing">{t(on, "args.none")}</p> : <Inside {...drawing} field={field} path="" />
        : (
          <textarea
            name="json"
            rows={12}
            class="code"
            spellcheck={false}
            aria-label={t(on, "args.as_json")}
            aria-invalid={whole.length > 0}
          >
            {`\n${args.json}`}
          </textarea>
        )}
      <input type="hidden" name="mode" value={draft ? "fields" : "json"} />
      {field && (
        <div>
          <Resend
            {...{ on, action }}
            name="switch"
            value={draft ? "json" : "fields"}
            text={draft ? t(on, "args.switch_json") : t(on, "args.switch_fields")}
          />
        </div>
      )}
    </fieldset>
  );
}

interface Drawing {
  on: RequestContext;
  draft: Draft;
  problems: Problems;
  action: string;
}

interface Place extends Drawing {
  field: Field;
  path: string;
  /** What it is called in its object. */
  name?: string;
  /** Within something that may be left out: a box without a tick would be "false", not "nothing". */
  loose?: boolean;
}

function One(at: Place) {
  const { field, path, problems } = at;
  if (field.kind === "object" || field.kind === "list") {
    return (
      <fieldset>
        <legend>
          <Name {...at} />
        </legend>
        <Hint {...at} />
        <Wrong id={path} texts={problems.get(path)} />
        <Inside {...at} />
      </fieldset>
    );
  }
  // What is wrong somewhere inside of a box of JSON is said beside the box.
  const inside = [...problems].filter(([one]) => one === path || one.startsWith(`${path}/`));
  const texts = inside.flatMap(([one, texts]) =>
    texts.map((text) => one === path ? text : `${one.slice(path.length)}: ${text}`)
  );
  return (
    <div class="field">
      <label for={idOf(path)}>
        <Name {...at} />
      </label>
      <Box {...at} wrong={texts.length > 0} />
      <Hint {...at} />
      <Wrong id={path} texts={texts} />
    </div>
  );
}

function Inside(at: Place) {
  const { field, path, ...on } = at;
  if (field.kind === "object") {
    const loose = at.loose || !field.required;
    return (
      <div class="inside">
        {field.fields.map(([name, one]) => (
          <One {...on} field={one} path={below(path, name)} name={name} loose={loose} />
        ))}
      </div>
    );
  }
  if (field.kind !== "list") return null;
  const count = countOf(at.draft, path, field.most);
  return (
    <div class="inside">
      <input type="hidden" name={countKey(path)} value={String(count)} />
      {Array.from({ length: count }, (_, n) => (
        <div class="item">
          <One
            {...on}
            field={field.item}
            path={below(path, n)}
            name={t(at.on, "args.item", { n: n + 1 })}
            loose={false}
          />
          <Resend
            {...at}
            name="remove"
            value={below(path, n)}
            text={t(at.on, "args.remove_short")}
            label={t(at.on, "args.remove", { n: n + 1 })}
          />
        </div>
      ))}
      {count < field.most && (
        <div>
          {/* By its id it stays the same button, focus and all, when another one comes before it, which takes an item away. */}
          <Resend {...at} id={`add-${idOf(path)}`} name="add" value={path} text={t(at.on, "args.add")} />
        </div>
      )}
    </div>
  );
}

/** Sends the form to get it back otherwise, without a check. */
function Resend(
  { on, action, name, value, text, label, id }: {
    on: RequestContext;
    action: string;
    name: string;
    value: string;
    text: string;
    label?: string;
    id?: string;
  },
) {
  return (
    <button
      id={id}
      type="submit"
      name={name}
      value={value}
      formnovalidate
      class="small"
      aria-label={label}
      hx-post={link(on, action)}
      hx-target="#args"
      hx-select="#args"
      hx-swap="outerMorph"
      hx-validate="false"
    >
      {text}
    </button>
  );
}

function Name({ on, field, name }: Place) {
  const title = field.title ?? name;
  return (
    <>
      {title} {field.title && name && field.title !== name && <code>{name}</code>}
      {field.required && !field.nullable && field.kind !== "truth" && (
        <small class="must">{t(on, "args.required")}</small>
      )}
    </>
  );
}

function Box({ on, draft, field, path, loose, wrong }: Place & { wrong: boolean }) {
  const common = {
    id: idOf(path),
    name: textKey(path),
    "aria-invalid": wrong ? "true" : undefined,
    "aria-describedby": `${idOf(path)}-said`,
  };
  const typed = draft.get(textKey(path)) ?? "";
  const required = field.required && !field.nullable && !loose;
  switch (field.kind) {
    case "choice":
      return (
        <Choices
          {...common}
          {...{ on, typed, required }}
          options={field.options.map(shown)}
          values={field.options.map((_, n) => String(n))}
        />
      );
    case "truth":
      if (loose || (!field.required && field.standard === undefined)) {
        return (
          <Choices
            {...common}
            {...{ on, typed }}
            required={false}
            options={["true", "false"]}
            values={["true", "false"]}
          />
        );
      }
      return (
        <span class="tick">
          <input type="hidden" name={common.name} value="false" />
          <input type="checkbox" {...common} value="true" checked={typed === "true"} /> {t(on, "args.yes")}
        </span>
      );
    case "number":
      return (
        <input
          type="number"
          {...common}
          value={typed}
          step={field.whole ? 1 : "any"}
          min={limit(field.least)}
          max={limit(field.most)}
          required={required}
        />
      );
    case "json":
      return <textarea {...common} rows={3} class="code" spellcheck={false}>{`\n${typed}`}</textarea>;
    case "text":
      if (field.format === "date") return <input type="date" {...common} value={typed} required={required} />;
      if (field.format === "date-time") {
        return <input type="datetime-local" step="any" {...common} value={typed} required={required} />;
      }
      if (typed.includes("\n") || (field.most ?? 0) > 200) {
        return <textarea {...common} rows={4}>{`\n${typed}`}</textarea>;
      }
      return <input {...common} value={typed} autocomplete="off" required={required && field.least > 0} />;
    default:
      return null;
  }
}

function Choices(
  { on, typed, options, values, ...rest }: {
    on: RequestContext;
    typed: string;
    options: string[];
    values: string[];
    id: string;
    name: string;
    required: boolean;
  },
) {
  return (
    <select {...rest}>
      <option value="">{t(on, "args.not_given")}</option>
      {options.map((text, n) => <option value={values[n]} selected={typed === values[n]}>{text}</option>)}
    </select>
  );
}

function Hint({ on, field }: Place) {
  const parts = [
    field.description,
    rangeText(on, field),
    field.kind === "text" && field.format === "date-time" ? t(on, "args.in_zone", { zone: on.zone }) : undefined,
    field.kind === "json" ? t(on, "args.as_json") : undefined,
    field.standard !== undefined && !field.required
      ? t(on, "args.standard", { text: shown(field.standard) })
      : undefined,
  ].filter((part) => part !== undefined);
  return parts.length > 0 ? <small class="hint">{parts.join(" · ")}</small> : null;
}

function rangeText(on: RequestContext, field: Field): string | undefined {
  if (field.kind === "text") return field.most === undefined ? undefined : t(on, "args.letters", { n: field.most });
  if (field.kind !== "number") return undefined;
  const [low, high] = [limit(field.least), limit(field.most)];
  if (low !== undefined && high !== undefined) return t(on, "args.range", { low: String(low), high: String(high) });
  return low !== undefined
    ? t(on, "args.at_least", { low: String(low) })
    : high !== undefined
    ? t(on, "args.at_most", { high: String(high) })
    : undefined;
}

/** What a whole number may be at all says nothing about this one. */
function limit(value: number | undefined): number | undefined {
  return value === undefined || Math.abs(value) >= Number.MAX_SAFE_INTEGER ? undefined : value;
}

function Wrong({ id, texts }: { id: string; texts: string[] | undefined }) {
  return (
    <span class="wrong" id={`${idOf(id)}-said`} role={texts?.length ? "alert" : undefined}>
      {texts?.map((text) => <span>{text}</span>)}
    </span>
  );
}

function shown(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Without blanks, since others name it in lists. */
function idOf(path: string): string {
  return `arg-${encodeURIComponent(path)}`;
}
