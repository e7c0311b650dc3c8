/** Words of the pages about users, tokens and hooks, and of one's own account. */
import { counted } from "../../../platform/text.ts";
import { words } from "../../words.ts";

export const ACCESS = words({
  users: { en: "Users", ja: "ユーザー" },
  tokens: { en: "API tokens", ja: "API トークン" },
  hooks: { en: "Webhooks", ja: "Webhook" },
  areas: { en: "Access", ja: "権限" },
  name: { en: "Name", ja: "名前" },
  role: { en: "Role", ja: "役割" },
  created: { en: "Created", ja: "作成" },
  created_by: { en: "Created by", ja: "作成者" },
  seen: { en: "Last seen", ja: "最終利用" },
  you: { en: "you", ja: "自分" },
  once: { en: "Shown only once", ja: "表示は今回限り" },
  copy: {
    en: "Copy it now: it is not stored and cannot be shown again.",
    ja: "今コピーしてください。保存されないため、再表示できません。",
  },
  go_on: { en: "Copied", ja: "控えました" },
  none_of: { en: "There is no longer one of that name", ja: "その名前のものはありません" },
  taken: { en: (name: string) => `"${name}" already exists`, ja: (name) => `「${name}」はすでにあります` },

  roles_text: {
    en: "viewer: read everything. operator: also act on jobs and runs. admin: also settings, users and tokens.",
    ja: "viewer：閲覧のみ。operator：ジョブの操作も可。admin：設定・ユーザー・トークンの管理も可。",
  },
  add_user: { en: "Add user", ja: "ユーザーを追加" },
  password_made: {
    en: "A password is generated and shown once; the user can change it under Your account.",
    ja: "パスワードは自動生成され一度だけ表示されます。本人が変更できます。",
  },
  user_name: { en: "Name: lower case letters, digits, _ . @ -", ja: "名前：英小文字、数字、_ . @ -" },
  bad_name: {
    en: (name: string) => `Cannot use "${name}" as a name: give lower case letters, digits, _ . @ -, at most 64`,
    ja: (name) => `名前「${name}」は使用できません。英小文字、数字、_ . @ - で 64 文字までです`,
  },
  password_of: { en: (name: string) => `The password of ${name}`, ja: (name) => `${name} のパスワード` },
  change_role: { en: "Role", ja: "役割" },
  role_title: { en: (name: string) => `Change the role of ${name}?`, ja: (name) => `${name} の役割を変更しますか？` },
  role_text: { en: "It applies from the user's next request.", ja: "次の操作から適用されます。" },
  role_done: {
    en: (name: string, role: string) => `${name} is now ${role}`,
    ja: (name, role) => `${name} は ${role} です`,
  },
  not_yourself: {
    en: "You cannot change your own role, so that there is always an admin",
    ja: "管理者がいなくならないよう、自分の役割は変更できません",
  },
  new_password: { en: "New password", ja: "パスワード再発行" },
  new_password_title: {
    en: (name: string) => `Set a new password for ${name}?`,
    ja: (name) => `${name} のパスワードを再発行しますか？`,
  },
  new_password_text: {
    en: "It is shown once. The old password stops working at once, and all sessions of the user end.",
    ja: "一度だけ表示されます。以前のものは直ちに無効になり、全端末でログアウトされます。",
  },
  log_out: { en: "Log out", ja: "ログアウト" },
  log_out_title: {
    en: (name: string) => `Log ${name} out everywhere?`,
    ja: (name) => `${name} を全端末でログアウトしますか？`,
  },
  log_out_text: { en: "All open sessions end at once.", ja: "すべてのセッションを直ちに終了します。" },
  log_out_done: { en: (n: number) => `${counted(n, "session")} ended`, ja: (n) => `${n} 件のセッションを終了しました` },
  disabled: { en: "disabled", ja: "無効" },
  tries: { en: (n: number) => counted(n, "wrong password"), ja: (n) => `誤ったパスワード ${n} 回` },
  disable: { en: "Disable", ja: "無効化" },
  disable_title: { en: (name: string) => `Disable ${name}?`, ja: (name) => `${name} を無効にしますか？` },
  disable_text: {
    en:
      "The user is logged out at once and cannot log in until enabled again. API tokens that the user created end for good.",
    ja: "直ちにログアウトされ、有効に戻すまでログインできません。このユーザーが作成した API トークンは失効します。",
  },
  disable_done: {
    en: (name: string, sessions: number, tokens: number) =>
      `${name} is disabled; ${counted(sessions, "session")} and ${counted(tokens, "token")} ended`,
    ja: (name, sessions, tokens) =>
      `${name} を無効にしました（セッション ${sessions} 件、トークン ${tokens} 件を終了）`,
  },
  not_yourself_out: {
    en: "You cannot disable yourself, so that there is always an admin",
    ja: "管理者がいなくならないよう、自分自身は無効にできません",
  },
  enable: { en: "Enable", ja: "有効化" },
  enable_title: { en: (name: string) => `Enable ${name} again?`, ja: (name) => `${name} を有効に戻しますか？` },
  enable_text: {
    en: "The user can log in again with the old password. Ended tokens stay ended.",
    ja: "以前のパスワードで再びログインできます。失効したトークンは戻りません。",
  },
  enable_done: { en: (name: string) => `${name} can log in again`, ja: (name) => `${name} を有効に戻しました` },
  unlock: { en: "Unlock", ja: "ロック解除" },
  unlock_title: {
    en: (name: string) => `Clear the failed logins of ${name}?`,
    ja: (name) => `${name} の誤ったパスワードの記録を消しますか？`,
  },
  unlock_text: {
    en:
      "Logins are accepted from every address again. Browsers and addresses from which the user had logged in before were never locked out by others.",
    ja:
      "すべてのアドレスから再び試せるようになります。以前ログインしたブラウザーとアドレスは、他人の試行では締め出されません。",
  },
  unlock_done: {
    en: (name: string, tries: number) => `${name} is unlocked; ${counted(tries, "failed login")} cleared`,
    ja: (name, tries) => `${name} のロックを解除しました（記録 ${tries} 件を消去）`,
  },
  remove: { en: "Remove", ja: "削除" },
  remove_user_title: { en: (name: string) => `Remove ${name}?`, ja: (name) => `${name} を削除しますか？` },
  remove_user_text: {
    en:
      "The user is logged out at once and cannot log in again. API tokens that the user created end. The user's audit entries stay.",
    ja:
      "直ちにログアウトされ、再ログインできません。このユーザーが作成した API トークンも失効します。操作履歴は監査に残ります。",
  },
  removed: { en: (name: string) => `${name} is removed`, ja: (name) => `${name} を削除しました` },
  bad_choice: { en: "Choose one of the options", ja: "選択肢から選んでください" },

  no_tokens: { en: "No tokens yet.", ja: "トークンはまだありません。" },
  tokens_text: {
    en: "For programs that use the API, as Authorization: Bearer TOKEN.",
    ja: "プログラムが API を使うためのものです（Authorization: Bearer TOKEN）。",
  },
  add_token: { en: "Create token", ja: "トークンを作成" },
  token_name: { en: "Name: lower case letters, digits, _ . -", ja: "名前：英小文字、数字、_ . -" },
  bad_token_name: {
    en: (name: string) => `Cannot use "${name}" as a name: give lower case letters, digits, _ . -, at most 64`,
    ja: (name) => `名前「${name}」は使用できません。英小文字、数字、_ . - で 64 文字までです`,
  },
  scopes: { en: "Scopes", ja: "権限" },
  scope_missing: { en: "Choose at least one scope", ja: "権限を一つ以上選んでください" },
  days: { en: "Valid for days", ja: "有効日数" },
  bad_days: { en: "Give a number of days from 1 to 3650", ja: "日数は 1 から 3650 です" },
  expires: { en: "Until", ja: "期限" },
  expired: { en: "expired", ja: "期限切れ" },
  used: { en: "Last used", ja: "最終利用" },
  token_is: { en: (name: string) => `Token ${name}`, ja: (name) => `トークン ${name}` },
  remove_token_title: {
    en: (name: string) => `Revoke token ${name}?`,
    ja: (name) => `トークン ${name} を取り消しますか？`,
  },
  remove_token_text: {
    en: "Requests with it are refused at once.",
    ja: "使用しているプログラムは直ちに拒否されます。",
  },

  no_hooks: { en: "No webhooks yet.", ja: "Webhook はまだありません。" },
  hooks_text: {
    en: "Other programs deliver events here, signed with the webhook's secret.",
    ja: "他のプログラムが署名付きでイベントを届ける宛先です。",
  },
  add_hook: { en: "Create webhook", ja: "Webhook を作成" },
  event_type: { en: "Event type of its deliveries", ja: "イベントの種類" },
  signature: { en: "Signature", ja: "署名方式" },
  rate: { en: "Deliveries a minute", ja: "毎分の上限" },
  address: { en: "Address", ja: "宛先" },
  delivered: { en: "Last delivery", ja: "最終受信" },
  secret_of: { en: (name: string) => `The secret of webhook ${name}`, ja: (name) => `Webhook ${name} の秘密鍵` },
  remove_hook_title: {
    en: (name: string) => `Remove webhook ${name}?`,
    ja: (name) => `Webhook ${name} を削除しますか？`,
  },
  remove_hook_text: { en: "Further deliveries are refused at once.", ja: "以後の配信は直ちに拒否されます。" },

  account: { en: "Your account", ja: "アカウント" },
  sessions: { en: "Where you are logged in", ja: "ログイン中の端末" },
  browser: { en: "Browser", ja: "ブラウザー" },
  from: { en: "From", ja: "接続元" },
  change_password: { en: "Change password", ja: "パスワードを変更" },
  current: { en: "Current password", ja: "現在のパスワード" },
  fresh: { en: "New password, 12 characters or more", ja: "新しいパスワード（12 文字以上）" },
  again: { en: "New password again", ja: "新しいパスワード（確認）" },
  wrong: {
    en: "The current password is wrong: nothing was changed",
    ja: "現在のパスワードが違います。変更していません",
  },
  too_many: { en: "Too many attempts: wait 15 minutes", ja: "試行が多すぎます。15 分ほど待ってください" },
  differ: {
    en: "The two new passwords differ: nothing was changed",
    ja: "新しいパスワードが一致しません。変更していません",
  },
  unfit: {
    en: "A password must have 12 to 1000 characters",
    ja: "パスワードは 12 文字以上 1000 文字以内です",
  },
  password_done: {
    en: "Your password is changed. Log in with the new one, here and everywhere",
    ja: "パスワードを変更しました。新しいパスワードでログインし直してください",
  },
  log_out_all: { en: "Log out everywhere", ja: "全端末でログアウト" },
});
