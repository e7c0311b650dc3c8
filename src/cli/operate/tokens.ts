/** `admin token`: tokens API tokens for programs. One is shown once, when it is made; only its digest is kept. */
import { counted } from "../../platform/text.ts";
import { digestOf, makeToken } from "../../admin/auth/passwords.ts";
import { listApiTokens, MOST_TOKEN_DAYS, type Scope, SCOPES, TOKEN_NAME } from "../../access/api_tokens.ts";
import { addToken, removeToken } from "../../actions/system_actions.ts";
import { act, type JsonOption, withDb } from "../operator.ts";
import { CommandError, EXIT, printJson, say } from "../../app/output.ts";
import { printTable } from "../table.ts";

export async function addTokenCommand(
  name: string,
  options: JsonOption & { scope: string[]; days: number },
): Promise<void> {
  if (!TOKEN_NAME.test(name)) {
    const rule = "give lower case letters, digits, _ . -, at most 64";
    throw new CommandError(`Cannot use "${name}" as a token's name: ${rule}`, EXIT.usage);
  }
  if (options.days > MOST_TOKEN_DAYS) {
    throw new CommandError(`Cannot use --days ${options.days}: give at most ${MOST_TOKEN_DAYS}`, EXIT.usage);
  }
  const scopes = options.scope.map(scopeFrom);
  const token = makeToken();
  const row = { name, token_digest: await digestOf(token), scopes: [...new Set(scopes)], days: options.days };
  const { added } = await act(addToken, row, {});
  if (!added) throw new CommandError(`Cannot add token "${name}": the name is taken; remove the token first`);
  if (options.json) return printJson({ name, scopes: row.scopes, token });
  console.error(
    `token "${name}" may ${row.scopes.join(", ")} for ${counted(options.days, "day")}; the token is not shown again:`,
  );
  say(token);
}

function scopeFrom(text: string): Scope {
  const scope = SCOPES.find((one) => one === text);
  if (scope) return scope;
  throw new CommandError(`Cannot use --scope "${text}": give one or more of ${SCOPES.join(", ")}`, EXIT.usage);
}

export async function listTokensCommand(options: JsonOption): Promise<void> {
  const tokens = await withDb(listApiTokens);
  if (options.json) return printJson(tokens);
  printTable(
    ["token", "scopes", "created by", "expires", "last used"],
    tokens.map((one) => [one.name, one.scopes.join(","), one.created_by, one.expires_at, one.used_at]),
    "no tokens yet; create one: deno task admin token add NAME --scope read",
  );
}

export async function removeTokenCommand(name: string, options: JsonOption): Promise<void> {
  const { removed } = await act(removeToken, { name }, {});
  if (!removed) {
    throw new CommandError(
      `Cannot remove token "${name}": there is no such token; \`deno task admin token ls\` lists all`,
    );
  }
  if (options.json) return printJson({ name, removed });
  say(`token "${name}" is revoked; requests with it are refused`);
}
