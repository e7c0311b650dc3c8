/**
 * What the engine wrote into a row as an English sentence: why a run ended, what a check found, why something was paused, what stands for a reason where
 * nobody gave one. In Japanese by its sentence; what a body, a person or another version said stays as it came.
 */
import type { Lang } from "../../locale/locale.ts";

type Said = (part: (place: number) => string) => string;

/** Parts are those in brackets; `said` gives one of them in Japanese, where it is a sentence of the engine itself. */
const JA: [sentence: RegExp, said: Said][] = [
  // What stands for a reason.
  [/^from the admin page$/, () => "管理画面から"],
  [/^from the command line$/, () => "コマンドラインから"],
  [/^through the API$/, () => "API から"],
  [/^test of the webhook$/, () => "Webhook のテスト"],
  [
    /^more than (\d+) of its runs failed \(max_failures\)$/,
    (part) => `失敗が ${part(1)} 件（max_failures）を超えました`,
  ],
  [/^run (\d+) ended (\w+)$/, (part) => `実行 ${part(1)} が ${part(2)} で終わりました`],
  [
    /^neither a call nor a heartbeat of it for ([\d.]+) s$/,
    (part) => `${part(1)} 秒間、呼び出しにもハートビートにも応答がありません`,
  ],
  [/^bulk (\d+) is canceled: (.*)$/, (part) => `一括 ${part(1)} の取り消し（${part(2)}）`],
  [/^bulk (\d+) is canceled$/, (part) => `一括 ${part(1)} の取り消し`],
  [/^replaced by a newer run of this job$/, () => "このジョブの新しい実行に置き換えられました"],
  // How a run ended without its body, or was never begun.
  [
    /^interrupted (\d+) times, more than max_interruptions \((\d+)\)$/,
    (part) => `${part(1)} 回中断され、max_interruptions の ${part(2)} 回を超えました`,
  ],
  [/^not started within ([\d.]+) s of its slot$/, (part) => `予定から ${part(1)} 秒以内に開始できませんでした`],
  [
    /^an older run of this job had not ended, and its concurrency is "forbid"$/,
    () => "このジョブの前の実行が終わっていないため見送りました（concurrency は forbid）",
  ],
  [
    /^an older slot of this job was waiting, and its concurrency is "queueOne"$/,
    () => "このジョブの前の予定がまだ待っているため見送りました（concurrency は queueOne）",
  ],
  [/^not ended by its deadline, (\S+)$/, (part) => `期限（${part(1)}）までに終わりませんでした`],
  [/^canceled by (\S+): (.*)$/, (part) => `${part(1)} が取り消しました：${part(2)}`],
  [/^closed by (\S+): (.*)$/, (part) => `${part(1)} が不明として終了しました：${part(2)}`],
  // What became of an attempt that its worker gave back or lost.
  [/^its worker is dead$/, () => "ワーカーが停止しました"],
  [/^its worker is draining$/, () => "ワーカーがドレイン中です"],
  [/^its worker is detached$/, () => "ワーカーが切り離されました"],
  [/^its worker is stopping$/, () => "ワーカーが終了します"],
  [/^its worker is dead to the others$/, () => "ワーカーが他から停止とみなされました"],
  [/^its worker had no body for it$/, () => "ワーカーに本体がありませんでした"],
  [/^its worker takes no work any more$/, () => "ワーカーが実行を受け付けなくなりました"],
  [/^no slot came free within (\d+) ms$/, (part) => `${part(1)} ms 以内にスロットが空きませんでした`],
  [
    /^Postgres says that this run is not this worker's$/,
    () => "Postgres では、この実行はこのワーカーのものではありません",
  ],
  // How a body ended.
  [/^Timed out after ([\d.]+) s: (.*)$/, (part) => `${part(1)} 秒で時間切れになりました（${part(2)}）`],
  [/^Canceled \(requested\): (.*)$/, (part) => `取り消されました（${part(1)}）`],
  [/^Canceled \((.*)\): (.*)$/, (part) => `取り消されました：${part(1)}（${part(2)}）`],
  [/^ended by KILL before run\(\) was called$/, () => "run() の呼び出し前に KILL で終了"],
  [/^ended by (\w+), and what it had started by KILL$/, (part) => `${part(1)} で終了、起動したプロセスは KILL で終了`],
  [/^it ended by itself after its signal, throwing$/, () => "signal を受けて例外で終了"],
  [/^it ended by itself after its signal$/, () => "signal を受けて自ら終了"],
  [/^ended by (\w+)$/, (part) => `${part(1)} で終了`],
  [
    /^Ended by KILL: it wrote more than (\d+) MiB of output; write to a file or a store instead$/,
    (part) => `出力が ${part(1)} MiB を超えたため KILL で終了しました。ファイルやストアに書き出してください`,
  ],
  [/^Ended by KILL: (.*)$/, (part) => `KILL で終了しました：${part(1)}`],
  [
    /^Ended by the guard of bodies: its worker was frozen, or was no longer allowed to run it$/,
    () => "監視プロセスが終了させました（ワーカーが停止していたか、実行の権利を失いました）",
  ],
  [/^Not started: (.*)$/, (part) => `開始できませんでした：${part(1)}`],
  [
    /^The body needed more memory than its (\d+) MiB: raise memoryMb, or work in smaller pieces$/,
    (part) => `メモリが ${part(1)} MiB を超えました。memoryMb を増やすか、処理を小さく分けてください`,
  ],
  [
    /^Killed by (\w+), which Dandori did not send; if nobody sent it, the machine may have run out of memory$/,
    (part) =>
      `${part(1)} で終了しました（Dandori は送っていません。誰も送っていなければ、メモリ不足の可能性があります）`,
  ],
  [/^Killed by (\w+), which Dandori did not send$/, (part) => `${part(1)} で終了しました（Dandori は送っていません）`],
  [
    /^The body ended its process with exit code (\d+) in run\(\): return or throw instead$/,
    (part) => `run() の中でプロセスが終了コード ${part(1)} で終了されました。return か throw で終えてください`,
  ],
  [
    /^The body ended its process with exit code (\d+) in the file's top level: return or throw instead$/,
    (part) =>
      `ファイルの最上位でプロセスが終了コード ${part(1)} で終了されました。run() の return か throw で終えてください`,
  ],
  [
    /^The body's process ended with exit code (\S+) and gave no reason$/,
    (part) => `本体のプロセスが理由を示さず終了コード ${part(1)} で終了しました`,
  ],
  [
    /^The body's process ended before the job was loaded with exit code (\S+) and gave no reason$/,
    (part) => `ジョブの読み込み前に、本体のプロセスが理由を示さず終了コード ${part(1)} で終了しました`,
  ],
  [
    /^Loading the job file failed: a top-level await waits for what can no longer come$/,
    () => "ジョブファイルを読み込めません。最上位の await が終わることのないものを待っています",
  ],
  [
    /^The result holds a text with \\u0000 or half a surrogate pair, which Postgres cannot store: remove it$/,
    () => "結果に、Postgres に保存できない文字（NUL または不完全な文字）が含まれています",
  ],
  [/^The outcome (\w+) could not be stored: (.*)$/, (part) => `結果 ${part(1)} を保存できませんでした：${part(2)}`],
  // What a check of a node found.
  [/^not measured$/, () => "測定していません"],
  [/^(\S+): ([A-Z_]+) (.*)$/, (part) => `${part(1)}: ${part(2)} ${part(3)}`],
  [/^no answer came within (\d+) ms$/, (part) => `${part(1)} ms 以内に応答がありませんでした`],
  [/^it took longer than (\d+) ms$/, (part) => `${part(1)} ms 以内に終わりませんでした`],
  [/^it ended by (\w+)$/, (part) => `${part(1)} で終了しました`],
  [/^it exited with (\d+)$/, (part) => `終了コード ${part(1)} で終了しました`],
  [/^Cannot run it: (.*)$/, (part) => `実行できません：${part(1)}`],
  [
    /^Cannot read SCHEDULER_CHECKS_DIR "(.*)": there is no such folder; make it, or unset the variable$/,
    (part) => `SCHEDULER_CHECKS_DIR のフォルダ ${part(1)} がありません。作成するか、変数を外してください`,
  ],
  [
    /^Cannot run (\d+) scripts of "(.*)": at most (\d+) are allowed$/,
    (part) => `${part(2)} のスクリプトが ${part(1)} 個あります（最大 ${part(3)} 個）`,
  ],
  // What a webhook for alerts answered.
  [
    /^(\S+) answered (\d+): redirects are not followed$/,
    (part) => `${part(1)} が ${part(2)} を返しました（転送には従いません）`,
  ],
  [/^(\S+) answered (\d+)$/, (part) => `${part(1)} が ${part(2)} を返しました`],
  [/^(\S+) gave no answer in time$/, (part) => `${part(1)} から時間内に応答がありません`],
  [/^(\S+) could not be reached$/, (part) => `${part(1)} に接続できません`],
  [
    /^(\S+) shows a certificate that is not trusted \((\w+)\): name its authority by (.+)$/,
    (part) =>
      `${part(1)} の証明書は信頼されていません（${part(2)}）。認証局を ${
        part(3).replace(" or ", " か ")
      } で指定してください`,
  ],
];

/** Of more than one line the first is the engine's; the others are what a body said. */
export function engineText(lang: Lang, text: string): string {
  if (lang === "en") return text;
  const [first = "", ...others] = text.split("\n");
  return [sentence(first), ...others].join("\n");
}

function sentence(text: string): string {
  for (const [sign, said] of JA) {
    const parts = sign.exec(text);
    if (parts) return said((place) => sentence(parts[place] ?? ""));
  }
  return text;
}
