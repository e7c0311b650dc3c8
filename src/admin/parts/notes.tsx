/** What stands where there is nothing, where something went wrong, and what is shown as it is. */
import type { Child } from "hono/jsx";

/** Silence explains nothing: what would be here, and how it comes here. */
export function Empty({ text, children }: { text: string; children?: Child }) {
  return (
    <div class="empty">
      <p>{text}</p>
      {children}
    </div>
  );
}

export function Problem({ title, text }: { title: string; text?: string | null }) {
  return (
    <div class="problem" role="alert">
      <strong>{title}</strong>
      {text && <pre>{text}</pre>}
    </div>
  );
}

/** A value as JSON, or a text as it is. */
export function Code({ value }: { value: unknown }) {
  return <pre class="code">{typeof value === "string" ? value : JSON.stringify(value, null, 2)}</pre>;
}

/** Names and values; what has no value is left out. */
export function KeyValues({ pairs }: { pairs: [name: string, value: Child | null | undefined | false][] }) {
  const given = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return (
    <dl class="pairs">
      {given.map(([name, value]) => (
        <div>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
