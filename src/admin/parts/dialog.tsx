/** Forms that change something: what they end with, and dialogs, which ask once and name what will be touched. */
import type { Child } from "hono/jsx";
import { link, type RequestContext, typedIn } from "../request_context.ts";
import { t } from "../../locale/locale.ts";

export function DialogButton({ opens, text, danger }: { opens: string; text: string; danger?: boolean }) {
  return (
    <button type="button" class={danger ? "danger" : undefined} data-opens={opens} aria-haspopup="dialog">
      {text}
    </button>
  );
}

interface Confirmation {
  on: RequestContext;
  /** What a `DialogButton` opens. */
  id: string;
  title: string;
  /** Where the form goes, from the base on. */
  action: string;
  /** On the button that does it: the act itself, never "OK". */
  verb: string;
  danger?: boolean;
  reason_required?: boolean;
  /** What will be touched, and further fields. */
  children?: Child;
}

/** Beside the live parts of a page, not in them, so that nothing moves under the hand. */
export function ConfirmDialog({ on, id, title, action, verb, danger, reason_required, children }: Confirmation) {
  return (
    <dialog id={id} aria-labelledby={`${id}-title`}>
      <form method="post" action={link(on, action)}>
        <h2 id={`${id}-title`}>{title}</h2>
        {children}
        <ReasonField on={on} required={reason_required} />
        <Csrf on={on} />
        <div class="buttons">
          <button type="button" data-closes="">{t(on, "dialog.back")}</button>
          <button type="submit" class={danger ? "danger" : "primary"}>{verb}</button>
        </div>
      </form>
    </dialog>
  );
}

/** What ends a form with a page of its own: why, and the button that does it. `back`: an address, as `link` gives it. */
export function Foot({ on, back, verb, danger }: { on: RequestContext; back: string; verb: string; danger?: boolean }) {
  return (
    <>
      <ReasonField on={on} />
      <Csrf on={on} />
      <div class="buttons">
        <Back on={on} to={back} />
        <button type="submit" class={danger ? "danger" : "primary"}>{verb}</button>
      </div>
    </>
  );
}

export function Back({ on, to }: { on: RequestContext; to: string }) {
  return <a class="button" href={to}>{t(on, "dialog.back")}</a>;
}

/** Why somebody does it. */
export function ReasonField({ on, required }: { on: RequestContext; required?: boolean }) {
  return (
    <label>
      {t(on, "dialog.reason")}
      <input name="reason" maxlength={500} autocomplete="off" value={typedIn(on, "reason") ?? ""} required={required} />
    </label>
  );
}

/** In every form that changes something. */
export function Csrf({ on }: { on: RequestContext }) {
  return <input type="hidden" name="csrf" value={on.csrf} />;
}
