/** Texts that look like others: what is hidden in them is shown, and sent back as it was. */
import assert from "node:assert/strict";
import { marked } from "../../../src/admin/marked.ts";
import { harmless } from "../../../src/platform/text.ts";
import { withAdmin } from "../../support/admin.ts";
import { json } from "../../../src/postgres/connection.ts";
import { aDefinition, aRun, aWorker } from "../../support/factories.ts";

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

Deno.test("what is written from right to left is isolated on every page, wherever it stands", async () => {
  assert.equal(marked("<td>אב</td>"), "<td><bdi><bdi>אב</bdi></bdi></td>");
  assert.equal(marked("<p>run 5 of א 7 ב: 3</p>"), "<p><bdi>run 5 of <bdi>א 7 ב</bdi>: 3</bdi></p>");
  assert.equal(marked("<p>a &lt;א&gt;ב</p>"), "<p><bdi>a &lt;<bdi>א</bdi>&gt;<bdi>ב</bdi></bdi></p>");
  for (const alone of ["<title>א</title>", '<option value="1">א</option>', "<bdi>א</bdi>", "<p>段取り é</p>"]) {
    assert.equal(marked(alone), alone);
  }
  const text = "شرح 12 א";
  await withAdmin(async ({ sql, login }) => {
    const { id } = await aDefinition(sql, {
      name: "hello",
      description: text,
      paused_at: new Date(),
      paused_by: text,
      paused_reason: text,
    });
    const run = await aRun(sql, {
      job_definition_id: id,
      state: "FAILED",
      args_json: { text },
      error_name: text,
      error_summary: text,
      serial_key: text,
    });
    await sql`insert into job_run_log (job_run_id, attempt, level, message, fields) values (${run.id}, 1, 'info', ${text}, ${
      json(sql, { text })
    })`;
    await aWorker(sql, { worker_id: "w1", node_id: "n1" });
    await sql`update node set labels = ${json(sql, { place: text })}, check_result = ${
      json(sql, { problem: text, parts: [] })
    }`;
    await sql`insert into serial_key_pause (serial_key, stopped_by, reason) values (${text}, ${text}, ${text})`;
    await sql`insert into event (event_type, payload_json) values (${text}, ${json(sql, { text })})`;
    await sql`insert into alert (kind, subject, message, opened_by) values ('run.failed', ${text}, ${text}, 'w1')`;
    await sql`insert into bulk (job_definition_id, name, created_by) values (${id}, ${text}, ${text})`;
    await sql`
      insert into admin_action_log (actor, action, target_type, target_id, after_json, reason)
      values (${text}, 'run.close', 'run', ${text}, ${json(sql, { text })}, ${text})`;
    const browser = await login("admin");
    const pages = [
      "overview",
      "jobs",
      "jobs/hello",
      "runs",
      `runs/${run.id}`,
      "queue",
      "bulks",
      "bulks/1",
      "events",
      "events/1",
    ];
    for (
      const path of [...pages, "nodes", "nodes/n1", "alerts", "audit", `runs?serial-key=${encodeURIComponent(text)}`]
    ) {
      const html = (await browser.text(`/${path}`)).replace(/<(title|option|textarea|script)\b.*?<\/\1>/gs, "");
      let depth = 0;
      let seen = 0;
      for (const part of html.split(/(<[^>]*>)/)) {
        if (part.startsWith("<")) depth += part === "<bdi>" ? 1 : part === "</bdi>" ? -1 : 0;
        else if (/[\u0590-\u08ff]/.test(part)) assert((seen++, depth > 0), `/${path}: ${part}`);
      }
      assert(seen > 0, `/${path} shows none of it`);
    }
  });
});
