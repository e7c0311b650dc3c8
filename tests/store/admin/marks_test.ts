/** Texts that look like others: what is hidden in them is shown, and sent back as it was. */
import assert from "node:assert/strict";
import { marked } from "../../../src/admin/marked.ts";
import { harmless } from "../../../src/platform/text.ts";
import { withAdmin } from "../../support/admin.ts";
import { aRun } from "../../support/factories.ts";

Deno.test("what turns letters around or cannot be seen is shown as a mark, on the page and in a terminal, and sent back as it was", async () => {
  const hidden = "abc\u202edcb\u2066x\u200f\u001b[2Jy\u0085";
  assert.equal(harmless(hidden), "abc⟨U+202E⟩dcb⟨U+2066⟩x⟨U+200F⟩\ufffd[2Jy\ufffd");
  assert.equal(
    harmless("שלום 段取り 👩‍🚀\t\n"),
    "שלום 段取り 👩‍🚀\t\n",
    "letters that are read from the right are letters",
  );
  await withAdmin(async ({ sql, login }) => {
    const run = await aRun(sql, { state: "FAILED", args_json: { text: hidden }, error_summary: hidden });
    await sql`insert into job_run_log (job_run_id, attempt, level, message) values (${run.id}, 1, 'info', ${hidden})`;
    const text = await (await login("operator")).text(`/runs/${run.id}`);
    assert.match(text, /<bdi>abc⟨U\+202E⟩/, "a line of the log turns nothing around beside it");
    const shown = text.replace(/<textarea.*?<\/textarea>/gs, "").replace(/<[^>]*>/g, "");
    assert(shown.split("⟨U+202E⟩").length > 3, "in its log, its error and its args");
    // deno-lint-ignore no-control-regex
    assert.doesNotMatch(shown, /[\u202a-\u202e\u2066-\u2069\u200e\u200f\u001b\u0085]/);
  });
  const form = '<p title="a\u202eb">a\u202eb</p><textarea name="args">a\u202eb</textarea><input value="a\u202eb">';
  assert.equal(
    marked(form),
    '<p title="a⟨U+202E⟩b">a⟨U+202E⟩b</p><textarea name="args">a\u202eb</textarea><input value="a\u202eb">',
  );
});
