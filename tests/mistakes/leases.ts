/** Leases and terms; the journal of outcomes and those who take it over; peers; what sync reads. */
import type { Mistake } from "./mistake.ts";

export const LEASE_MISTAKES: Mistake[] = [
  {
    id: "term-won-trusted-from-the-reply",
    file: "src/store/leadership.ts",
    find: `     where id = 1 and lease_until < clock_timestamp()
    returning epoch, tick\`;
  return row && Term.granted(row.epoch, ask.worker_id, { asked_at_ms, `,
    replace: `     where id = 1 and lease_until < clock_timestamp()
    returning epoch, tick\`;
  return row && Term.granted(row.epoch, ask.worker_id, { asked_at_ms: monotonicMs(), `,
    tests: ["tests/trust_test.ts"],
    filter: "a term is trusted from before it was asked for",
    why: "After a slow election a leader acts on a lease that Postgres has already given to another.",
  },
  {
    id: "term-deposed-trusted-from-the-reply",
    file: "src/store/leadership.ts",
    find: `worker_id is not null returning epoch, tick\`;
  return row && Term.granted(row.epoch, ask.worker_id, { asked_at_ms, `,
    replace: `worker_id is not null returning epoch, tick\`;
  return row && Term.granted(row.epoch, ask.worker_id, { asked_at_ms: monotonicMs(), `,
    tests: ["tests/trust_test.ts"],
    filter: "a term is trusted from before it was asked for",
    why: "Who took the seat from a dead leader acts on a lease that is over.",
  },
  {
    id: "term-renewed-trusted-from-the-reply",
    file: "src/store/agenda.ts",
    find: "{ asked_at_ms, lease_ms: look.lease_ms, tick }",
    replace: "{ asked_at_ms: monotonicMs(), lease_ms: look.lease_ms, tick }",
    tests: ["tests/trust_test.ts"],
    filter: "a term is trusted from before it was asked for",
    why: "A leader whose renewals are slow goes on for as long as they took after its term has ended.",
  },
  {
    id: "term-without-margin",
    file: "src/store/leadership.ts",
    find: "grant.lease_ms - Math.min(MARGIN_MS, grant.lease_ms / 4)",
    replace: "grant.lease_ms",
    tests: ["tests/trust_test.ts"],
    filter: "a term",
    why: "A leader believes in its term until the very moment in which another may win.",
  },
  {
    id: "short-term-with-the-whole-margin",
    file: "src/store/leadership.ts",
    find: "Math.min(MARGIN_MS, grant.lease_ms / 4)",
    replace: "MARGIN_MS",
    tests: ["tests/trust_test.ts"],
    filter: "a term ends for its holder",
    why: "With a lease of a third of a second nobody can lead.",
  },
  {
    id: "hasty-look-lengthens-trust",
    file: "src/store/agenda.ts",
    find: "    term: renews\n      ? ",
    replace: "    term: true\n      ? ",
    tests: ["tests/trust_test.ts"],
    filter: "a look that only counts the tick",
    why: "A leader in haste trusts a term that Postgres was not asked to renew.",
  },
  {
    id: "hasty-look-never-renews",
    file: "src/store/agenda.ts",
    find: "!look.hasty || term.trusted_until_ms - asked_at_ms < look.lease_ms * RENEW_BELOW",
    replace: "!look.hasty",
    tests: ["tests/trust_test.ts"],
    filter: "a look that only counts the tick",
    why: "A leader that is rung without a pause loses its term.",
  },
  {
    id: "worker-lease-registered-from-the-reply",
    file: "src/store/nodes.ts",
    find: "return rows.length > 0 ? asked_at_ms + lease_ms : undefined;",
    replace: "return rows.length > 0 ? monotonicMs() + lease_ms : undefined;",
    tests: ["tests/trust_test.ts"],
    filter: "a worker may run bodies",
    why: "A new worker runs bodies after others were given its runs.",
  },
  {
    id: "worker-lease-renewed-from-the-reply",
    file: "src/store/nodes.ts",
    find: `"DETACHED" ? undefined : asked_at_ms + my.lease_ms`,
    replace: `"DETACHED" ? undefined : monotonicMs() + my.lease_ms`,
    tests: ["tests/trust_test.ts"],
    filter: "a worker may run bodies",
    why: "A worker whose renewals are slow runs bodies after others were given its runs.",
  },
  {
    id: "worker-lease-without-margin",
    file: "src/roles/standing.ts",
    find: "    this.may_run_until_ms = lease_until_ms - this.settings.worker_margin_seconds * 1000;",
    replace: "    this.may_run_until_ms = lease_until_ms;",
    tests: ["tests/trust_test.ts"],
    filter: "a worker may run bodies",
    why: "Bodies are still being ended when their runs are begun elsewhere.",
  },
  {
    id: "confirmed-lease-without-margin",
    file: "src/roles/standing.ts",
    find: "const until_ms = lease_until_ms - this.settings.worker_margin_seconds * 1000;",
    replace: "const until_ms = lease_until_ms;",
    tests: ["tests/trust_test.ts"],
    filter: "a yes counts from before the question",
    why: "Bodies that go on by a leader's word are still being ended when their runs are begun elsewhere.",
  },
  {
    id: "confirmed-lease-counted-from-the-reply",
    file: "src/roles/continuation.ts",
    find: "standing.confirmedUntil(asked_ms + said.lease_ms);",
    replace: "standing.confirmedUntil(monotonicMs() + said.lease_ms);",
    tests: ["tests/trust_test.ts"],
    filter: "a yes counts from before the question",
    why: "After a slow answer of the leader bodies go on when the lease is over.",
  },
  {
    id: "confirmation-shortens-here",
    file: "src/roles/standing.ts",
    find: "this.may_run_until_ms = Math.max(this.may_run_until_ms, until_ms);",
    replace: "this.may_run_until_ms = until_ms;",
    tests: ["tests/trust_test.ts"],
    filter: "a yes counts from before the question",
    why: "A yes that is overtaken by a better one ends bodies that may go on.",
  },
  {
    id: "confirmation-shortens-in-postgres",
    file: "src/store/detach.ts",
    find: "greatest(w.lease_until, clock_timestamp() + ${ask.lease_ms} * interval '1 ms')",
    replace: "clock_timestamp() + ${ask.lease_ms} * interval '1 ms'",
    tests: ["tests/detach_test.ts"],
    filter: "never shortens it",
    why: "A yes of a leader with shorter leases makes a worker dead that holds a longer one.",
  },
  {
    id: "dead-worker-trusts-its-lease",
    file: "src/roles/worker.ts",
    find: "    standing.may_run_until_ms = 0;\n",
    replace: "",
    tests: ["tests/trust_test.ts"],
    filter: "dead to the others",
    why: "A worker that was declared dead goes on with runs that others have been given.",
  },
  {
    id: "outcome-in-the-journal-after-its-log-is-stored",
    file: "src/roles/executor.ts",
    find: `    if (ended) this.#spool?.keep(ended.ending); // before anything that waits for Postgres
    this.#me.tell();
    const record = () => ended ? this.#records.add(ended) : this.#giveBack(gone, outcome as Lost);`,
    replace: `    this.#me.tell();
    const record = () => {
      if (ended) this.#spool?.keep(ended.ending);
      return ended ? this.#records.add(ended) : this.#giveBack(gone, outcome as Lost);
    };`,
    tests: ["tests/executor_test.ts"],
    filter: "an outcome is in the journal before what may wait",
    why: "A worker that dies while Postgres is slow takes outcomes with it, and their runs are run again.",
  },
  {
    id: "outcome-stays-in-the-journal",
    file: "src/roles/executor.ts",
    find: "    if (gone.ending) this.#spool?.drop(gone.ending);\n",
    replace: "",
    tests: ["tests/executor_test.ts"],
    filter: "an outcome is in the journal before what may wait",
    why: "The journal of a worker grows until it takes nothing more.",
  },
  {
    id: "journal-emptied-one-result-too-early",
    file: "src/roles/spool.ts",
    find: `    if (this.#waiting.size > 0 && this.#bytes <= this.#tidy_at_bytes) return;
    this.#attempt(() => {
      if (this.#waiting.size === 0) this.#empty();`,
    replace: `    if (this.#waiting.size > 1 && this.#bytes <= this.#tidy_at_bytes) return;
    this.#attempt(() => {
      if (this.#waiting.size <= 1) this.#empty();`,
    tests: ["tests/spool_test.ts"],
    filter: "an outcome is in the file from its end",
    why: "The last outcome that waits for Postgres dies with its worker.",
  },
  {
    id: "dead-workers-journal-removed-unread",
    file: "src/roles/estate.ts",
    find: `if (!replayed || await workerState(sql, of.worker_id) !== "DEAD") return "not yet";`,
    replace: `if (await workerState(sql, of.worker_id) !== "DEAD") return "not yet";`,
    tests: ["tests/estate_test.ts"],
    filter: "a journal that cannot be read is kept",
    why: "Outcomes in a journal that could not be read for a moment are lost, and their runs are run again.",
  },
  {
    id: "living-workers-journal-removed",
    file: "src/roles/estate.ts",
    find: `if (!replayed || await workerState(sql, of.worker_id) !== "DEAD") return "not yet";`,
    replace: `if (!replayed) return "not yet";`,
    tests: ["tests/estate_test.ts"],
    filter: "of another host",
    why: "What a worker of another machine writes into its journal afterwards is lost.",
  },
  {
    id: "certified-before-its-journal-is-replayed",
    file: "src/roles/estate.ts",
    find: `  const replayed = await replay(heir, of);
  if (gone && await certifyDeath(sql, of)) {
    observe("worker.certified", { worker_id: of.worker_id, by: heir.worker_id });
  }`,
    replace: `  if (gone && await certifyDeath(sql, of)) {
    observe("worker.certified", { worker_id: of.worker_id, by: heir.worker_id });
  }
  const replayed = await replay(heir, of);`,
    tests: ["tests/estate_test.ts"],
    filter: "whose row somebody's transaction keeps",
    why:
      "Runs that have ended are run again, since the leader takes them from the dead before their outcomes are read.",
  },
  {
    id: "process-of-another-host-judged-by-its-pid",
    file: "src/roles/vigil.ts",
    find: `return me.host !== "" && of.host === me.host;`,
    replace: `return me.host !== "";`,
    tests: ["tests/estate_test.ts"],
    filter: "of another host",
    why: "A worker of another machine that shares the state folder is declared dead while its bodies run.",
  },
  {
    id: "hosts-that-cannot-be-told-are-one",
    file: "src/roles/vigil.ts",
    find: `return me.host !== "" && of.host === me.host;`,
    replace: `return of.host === me.host;`,
    tests: ["tests/estate_test.ts"],
    filter: "of a host that cannot be told",
    why: "Bodies of a living worker in another container are killed, where neither can tell whose pids it sees.",
  },
  {
    id: "death-certified-whatever-the-host-in-the-row",
    file: "src/store/nodes.ts",
    find: "         and host = ${of.host} and host <> '' and lease_until > '-infinity'",
    replace: "         and lease_until > '-infinity'",
    tests: ["tests/estate_test.ts"],
    filter: "its host is another",
    why: "A file that was copied from another machine makes its living worker dead.",
  },
  {
    id: "death-certified-whatever-the-pid-in-the-row",
    file: "src/store/nodes.ts",
    find:
      "where worker_id = ${of.worker_id} and pid = ${of.pid} and process_started = ${of.process_started}\n         and host",
    replace: "where worker_id = ${of.worker_id}\n         and host",
    tests: ["tests/estate_test.ts"],
    filter: "/its (pid|process_started) is another/",
    why: "The proof that one process is gone makes another one dead.",
  },
  {
    id: "tls-1-2-accepted",
    file: "src/cluster/tls.ts",
    find: `minVersion: "TLSv1.3",`,
    replace: `minVersion: "TLSv1.2",`,
    tests: ["tests/tls_handshake_test.ts"],
    filter: "TLS 1.2 is refused",
    why: "Peers speak a version of TLS that shows their certificates to whoever listens.",
  },
  {
    id: "link-that-stalls-lets-new-connections-pass",
    file: "src/ops/faulty_link.ts",
    find: "    if (!this.#open(flow)) from.pause();\n",
    replace: "",
    tests: ["tests/faulty_link_test.ts"],
    filter: "what is stalled",
    why: "A drill of a cut network passes while connections of its own go through.",
  },
  {
    id: "stranded-link-comes-back",
    file: "src/ops/faulty_link.ts",
    find: "return !flow.stranded && !this.#stalled.has(flow.direction);",
    replace: "return !this.#stalled.has(flow.direction);",
    tests: ["tests/faulty_link_test.ts"],
    filter: "a stranded connection",
    why: "A drill of connections that are dead without a word tests none.",
  },
  {
    id: "swallowed-connection-is-served",
    file: "src/ops/faulty_link.ts",
    find: "    if (this.#swallow) return;\n",
    replace: "",
    tests: ["tests/faulty_link_test.ts"],
    filter: "a swallowed connection",
    why: "A drill of a server that accepts and says nothing tests none.",
  },
  {
    id: "file-that-changed-while-it-was-read-is-stored",
    file: "src/catalog/sync.ts",
    find: "    if (graph?.ok && graph.graph.digest === state.digest) return;",
    replace: "    if (graph) return;",
    tests: ["tests/sync_broken_test.ts"],
    filter: "that changes while it is read",
    why: "A deploy in the midst of a sync stores the options of the new file with the code of the old one.",
  },
];
