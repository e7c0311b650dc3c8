/** What went wrong, in words, and what to do now. Details are in the log, under the id that is shown. */
import { link, type Page, type RequestContext } from "../request_context.ts";
import { type Lang, words } from "../words.ts";

const WORDS = words({
  bad: { en: "This makes no sense", ja: "要求を理解できません" },
  bad_text: {
    en: "The address or the form holds something that cannot be used.",
    ja: "URL またはフォームに使えない値があります。",
  },
  forbidden: { en: "You may not do this", ja: "権限がありません" },
  forbidden_text: {
    en:
      "The form is of a session that is over, or was not sent by a page of ours, so nothing was done. Go back, load that page anew and send it again.",
    ja:
      "フォームが終了したセッションのものか、この画面以外から送られたため、何も実行していません。前のページに戻り、再読み込みしてから送信してください。",
  },
  needs_role: {
    en: (needed: string, has: string) => `It needs the role ${needed}; yours is ${has}. An admin can change that.`,
    ja: (needed, has) => `必要なロールは ${needed} です（あなたのロール：${has}）。管理者に依頼してください。`,
  },
  missing: { en: "There is nothing here", ja: "見つかりません" },
  missing_text: {
    en: "It was never here, or it was deleted since its retention is over.",
    ja: "存在しないか、保持期間が過ぎて削除されました。",
  },
  too_slow: { en: "This came too slowly", ja: "受信に時間がかかりすぎました" },
  too_slow_text: { en: "Nothing was done. Send it again.", ja: "何も実行していません。もう一度送信してください。" },
  too_large: { en: "This is too much at once", ja: "大きすぎます" },
  too_large_text: {
    en: "A form of this page holds 1 MB at most. Items of a bulk can be more by `deno task bulk start`.",
    ja: "フォームで送れるのは 1 MB までです。一括の項目は deno task bulk start ならそれ以上でも登録できます。",
  },
  too_many: { en: "Too many attempts", ja: "試行が多すぎます" },
  too_many_text: { en: "Wait a while and try again.", ja: "しばらく待ってからもう一度試してください。" },
  failed: { en: "This went wrong", ja: "エラーが発生しました" },
  failed_text: {
    en: (id: string) => `Nothing more is told here. The log of the admin page says what happened, under ${id}.`,
    ja: (id) => `詳細は管理画面のログに ${id} として記録されています。`,
  },
  away: { en: "Postgres cannot be reached", ja: "Postgres に接続できません" },
  away_text: {
    en: "Nothing can be shown without it. This page asks again by itself. Jobs that run go on meanwhile.",
    ja: "データベースなしでは表示できません。このページは自動で再試行します。実行中のジョブは続いています。",
  },
  away_sent: {
    en:
      "What you sent may not have been done: look at the page that it was on before you send it again. Jobs that run go on meanwhile.",
    ja:
      "送信した内容は実行されていない可能性があります。元のページで確認してから、もう一度送信してください。実行中のジョブは続いています。",
  },
  back: { en: "Back to the page", ja: "元のページへ" },
  home: { en: "To the first page", ja: "最初のページへ" },
});

/** Why somebody may not, and who can help. */
export function needsRole(lang: Lang, { needed, has }: { needed: string; has: string }): string {
  return WORDS[lang].needs_role(needed, has);
}

/** `sent_from`: the page of the form that was sent; undefined: a page was asked for, which may be asked for again. */
export function errorPage(
  on: RequestContext,
  { status, text, sent_from }: { status: number; text: string; sent_from?: string },
): Page {
  const say = WORDS[on.lang];
  const known: Record<number, [title: string, about: string]> = {
    400: [say.bad, text || say.bad_text],
    403: [say.forbidden, text || say.forbidden_text],
    404: [say.missing, text || say.missing_text],
    408: [say.too_slow, text || say.too_slow_text],
    413: [say.too_large, text || say.too_large_text],
    429: [say.too_many, text || say.too_many_text],
    503: [say.away, sent_from === undefined ? say.away_text : say.away_sent],
  };
  const [title, about] = known[status] ?? [say.failed, say.failed_text(text)];
  return {
    title,
    refresh_seconds: status === 503 && sent_from === undefined ? 3 : undefined,
    body: (
      <div class="narrow">
        <p class="code-of-error">{status}</p>
        <h1>{title}</h1>
        <p>{about}</p>
        <p>
          {sent_from === undefined
            ? <a class="button" href={link(on, "/")}>{say.home}</a>
            : <a class="button" href={on.base + sent_from}>{say.back}</a>}
        </p>
      </div>
    ),
  };
}
