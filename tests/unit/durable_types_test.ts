/** The types of workflows: what a job's author writes is accepted, what would surprise him is not. Held by the type check. */
import assert from "node:assert/strict";
import { type ArgsOf, defineJob, Fatal, type ResultOf, type Stored } from "dandori";
import { z } from "zod";

/** Whatever the examples talk to. */
interface Outside {
  api: {
    post(path: string, data: unknown): Promise<{ id: number; made: Date }>;
    pages(book: string): Promise<{ page: number }[]>;
  };
  mail(to: string, text: string, more: { url: string; key: string }): Promise<void>;
  shop: { reserve(items: string[]): Promise<{ id: number }>; release(id: number): Promise<void> };
  pay: {
    charge(card: string, total: number, more: { idempotencyKey: string; signal: AbortSignal }): Promise<{ id: string }>;
    refund(id: string): Promise<void>;
  };
  depot: { ship(stock: number): Promise<void> };
  mdm: { wipe(device: string): Promise<void> };
  speech: {
    submit(file: string): Promise<{ id: number }>;
    state(id: number): Promise<{ done: boolean; text: string }>;
  };
}
declare const outside: Outside;

const onboarding = defineJob({
  args: z.object({ mail: z.string() }),
  messages: { confirmed: z.object({ at: z.string() }) },
  async run({ args, step, sleep, waitFor, callbackUrl }) {
    const { id } = await step("make account", () => outside.api.post("/accounts", args));
    const url = await callbackUrl("confirmed");
    const send = (text: string) => step(`${text} mail`, ({ key }) => outside.mail(args.mail, text, { url, key }));
    await send("welcome");
    if (!await waitFor("confirmed", { timeout: "3 days" })) {
      await send("reminder");
      if (!await waitFor("confirmed", { timeout: "4 days" })) return { account: id, confirmed: false };
    }
    await sleep("1 day");
    await send("tips");
    return { account: id, confirmed: true };
  },
});

const order = defineJob({
  args: z.object({ items: z.array(z.string()), card: z.string(), total: z.number() }),
  async run({ args, step }) {
    const { shop, pay, depot } = outside;
    const stock = await step("reserve", () => shop.reserve(args.items), { undo: (it) => it && shop.release(it.id) });
    await step(
      "charge",
      ({ key, signal }) => pay.charge(args.card, args.total, { idempotencyKey: key, signal }),
      { once: true, timeoutSeconds: 20, undo: (it, { key }) => pay.refund(it?.id ?? key) },
    );
    await step("ship", () => depot.ship(stock.id), { retry: { max: 20, backoffSeconds: 60 } });
  },
});

const renderPage = defineJob({
  args: z.object({ page: z.number() }),
  run: ({ args }) => ({ page: args.page, at: new Date(0) }),
});
const merge = defineJob({ args: z.object({ bulk: z.number() }), run: () => ({ pages: 3 }) });

const report = defineJob({
  args: z.object({ book: z.string() }),
  permissions: { call: ["render_page", "merge"] },
  async run({ args, step, call, callMany }) {
    const pages = await step("list", () => outside.api.pages(args.book));
    const done = await callMany<typeof renderPage>("render_page", pages, { parallel: 200, maxFailures: 20 });
    if (done.failed > 0) throw new Fatal(`${done.failed} pages failed: bulk ${done.id}`);
    for await (const { at } of done.results()) at.slice(0, 10); // a Date comes back as its text
    return call<typeof merge>("merge", { bulk: done.id });
  },
});

const wipeDevice = defineJob({
  args: z.object({ device: z.string(), user: z.string(), requestedBy: z.string() }),
  messages: { approval: z.object({ approved: z.boolean(), comment: z.string().optional() }) },
  async run({ args, step, sleep, waitFor, waitForEvent }) {
    const first = await Promise.race([
      waitFor("approval", {
        ask: `Wipe device ${args.device} of ${args.user}?`,
        show: args,
        who: ["role:operator"],
        notBy: args.requestedBy,
      }).then((it) => it.approved ? "yes" : "no"),
      waitForEvent("device.returned", { where: { device: args.device } }).then(() => "returned"),
      sleep("14 days").then(() => "nobody"),
    ]);
    if (first === "yes") await step("wipe", () => outside.mdm.wipe(args.device), { once: true });
    return { decided: first };
  },
});

const nightly = defineJob({
  permissions: { call: ["extract_*", "transform", "load", "notify"] },
  async run({ scheduledFor: day, call }) {
    const [orders, users] = await Promise.all([call("extract_orders", { day }), call("extract_users", { day })]);
    const table = await call("transform", { orders, users });
    await Promise.all([call("load", { table }), call("notify", { table }).catch(() => {})]);
  },
});

const transcribe = defineJob({
  args: z.object({ files: z.array(z.string()) }),
  run({ args, each }) {
    return each(args.files, async (file, { step, sleep }) => {
      const job = await step("submit", () => outside.speech.submit(file));
      for (;;) {
        const state = await step("look", () => outside.speech.state(job.id));
        if (state.done) return state.text;
        await sleep("1 min");
      }
    }, { parallel: 20, key: (file) => file });
  },
});

defineJob({
  messages: { answer: { schema: z.object({ yes: z.boolean() }), from: "emit" } },
  onChange: "fail",
  deadlineSeconds: 86_400,
  after: { jobs: ["load_orders"], when: "end" },
  async run({ waitFor, step, call, callbackUrl }) {
    const { payload, sentBy } = await waitFor("answer", { withSender: true });
    same<{ yes: boolean }>()(payload);
    same<string>()(sentBy);
    // @ts-expect-error it may be undefined after its timeout
    (await waitFor("answer", { timeout: 5 })).yes;
    // @ts-expect-error the job takes no such message
    await waitFor("question");
    // @ts-expect-error nor is one sent by a callback
    await callbackUrl("question");
    same<{ at: string; none: null }>()(await step("dates", () => ({ at: new Date(), none: null })));
    // @ts-expect-error a text, no Date, comes back
    (await step("date", () => new Date())).getTime();
    // @ts-expect-error a Map cannot be stored, so nothing can be done with it
    (await step("map", () => new Map([[1, 2]]))).size;
    // @ts-expect-error args are checked, of a job
    await call(merge, { bulk: "7" });
    // @ts-expect-error and of its type, by name
    await call<typeof merge>("merge", {});
    same<{ pages: number }>()(await call(merge, { bulk: 7 }));
  },
});

/** The two types are the same. */
function same<Expected>() {
  return <Given>(value: Given, ..._wrong: Same<Expected, Given> extends true ? [] : ["these types differ"]) => value;
}
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false;
type Holds<T extends true> = T;

export type Kept = [
  Holds<Same<ArgsOf<typeof merge>, { bulk: number }>>,
  Holds<Same<ResultOf<typeof renderPage>, { page: number; at: string }>>,
  Holds<Same<ResultOf<typeof onboarding>, { account: number; confirmed: boolean }>>,
  Holds<Same<ResultOf<typeof transcribe>, string[]>>,
  Holds<Same<Stored<{ a?: number; b: undefined }>, { a?: number; b: undefined }>>,
  Holds<Same<Stored<[Date, 1n]>, (string | { "cannot be stored": 1n })[]>>,
];

Deno.test("the examples of workflows are jobs", () => {
  for (const job of [onboarding, order, report, wipeDevice, nightly, transcribe]) {
    assert.equal(typeof job.options.run, "function");
  }
});
