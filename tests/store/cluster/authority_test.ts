/** Orders are obeyed from the certificate that holds the epoch in Postgres, and from nobody else. */
import assert from "node:assert/strict";
import type { Caller, StartJobResponse } from "../../../src/rpc/messages.ts";
import { LeaderAuthority } from "../../../src/worker/authority.ts";
import { LocalWorkerState } from "../../../src/worker/worker_state.ts";
import { acquire, resign } from "../../../src/nodes/leadership.ts";
import { DEFAULT_SETTINGS } from "../../../src/settings/settings.ts";
import { aTerm, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

const caller = (fingerprint: string): Caller => ({ fingerprint, address: "127.0.0.1:1" });
const local = () => new LocalWorkerState({ worker_id: "me", node_id: "n", slots: 1, settings: DEFAULT_SETTINGS });
const refusedAs = (code: string) => (error: { code?: string }) => error.code === code;
const resultOf = (refusal: Pick<StartJobResponse, "result"> | undefined) => refusal?.result;

Deno.test("the leader orders; others, older epochs and invented ones are refused", async () => {
  await withStores(async ({ sql }) => {
    await aWorker(sql, { worker_id: "leader", tls_fingerprint: "LEADER" });
    await aWorker(sql, { worker_id: "other", tls_fingerprint: "OTHER" });
    const me = local();
    const authority = new LeaderAuthority({ sql, local: me });
    const lease = { lease_ms: 60_000, epoch_hint: 0 };

    const first = await acquire(sql, { worker_id: "leader", ...lease });
    assert(first);
    assert.equal(await authority.refusal(first.epoch, caller("LEADER")), undefined);
    await assert.rejects(authority.refusal(first.epoch, caller("OTHER")), refusedAs("PERMISSION_DENIED"));
    await assert.rejects(authority.refusal(first.epoch + 2 ** 40, caller("OTHER")), refusedAs("FAILED_PRECONDITION"));
    assert.equal(me.epoch, first.epoch, "an invented epoch is not believed");

    assert(await resign(sql, first));
    const second = await acquire(sql, { worker_id: "other", ...lease });
    assert(second);
    assert.equal(await authority.refusal(second.epoch, caller("OTHER")), undefined);
    assert.equal(resultOf(await authority.refusal(first.epoch, caller("LEADER"))), "REJECTED_OLD_EPOCH");
    await assert.rejects(authority.refusal(second.epoch, caller("LEADER")), refusedAs("PERMISSION_DENIED"));
  });
});

Deno.test("over a rotation the leader orders by both its certificates, and then by the new one alone", async () => {
  await withStores(async ({ sql }) => {
    await aWorker(sql, { worker_id: "leader", tls_fingerprint: "OLD" });
    const authority = new LeaderAuthority({ sql, local: local() });
    const term = await aTerm(sql);
    const obeys = (fingerprint: string) =>
      authority.refusal(term.epoch, caller(fingerprint)).then(() => true, () => false);
    assert.deepEqual([await obeys("OLD"), await obeys("NEW")], [true, false]);
    await sql`update worker set tls_fingerprint = 'NEW', tls_former_fingerprint = 'OLD'`;
    assert.deepEqual([await obeys("NEW"), await obeys("OLD"), await obeys("OTHER")], [true, true, false]);
    await sql`update worker set tls_former_fingerprint = null`;
    assert.deepEqual([await obeys("OLD"), await obeys("NEW")], [false, true]);
  });
});
