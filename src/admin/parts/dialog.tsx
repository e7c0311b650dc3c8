/** An act that asks once: the button opens a dialog that names what will be touched, and a reason for the audit. */
import type { Child } from "hono/jsx";
import { link, type Visit } from "../visit.ts";
import { words } from "../words.ts";

const WORDS = words({
  reason: { en: "Reason (kept in the audit)", ja: "理由（監査ログに残ります）" },
  back: { en: "Back", ja: "戻る" },
});

export function DialogButton({ opens, text, danger }: { opens: string; text: string; danger?: boolean }) {
  return (
    <button type="button" class={danger ? "danger" : undefined} data-opens={opens} aria-haspopup="dialog">
      {text}
    </button>
  );
}

interface Confirmation {
  on: Visit;
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
  const say = WORDS[on.lang];
  return (
    <dialog id={id} aria-labelledby={`${id}-title`}>
      <form method="post" action={link(on, action)}>
        <h2 id={`${id}-title`}>{title}</h2>
        {children}
        <label>
          {say.reason}
          <input name="reason" maxlength={500} autocomplete="off" required={reason_required} />
        </label>
        <Csrf on={on} />
        <div class="buttons">
          <button type="button" data-closes="">{say.back}</button>
          <button type="submit" class={danger ? "danger" : "primary"}>{verb}</button>
        </div>
      </form>
    </dialog>
  );
}

/** In every form that changes something. */
export function Csrf({ on }: { on: Visit }) {
  return <input type="hidden" name="csrf" value={on.csrf} />;
}
