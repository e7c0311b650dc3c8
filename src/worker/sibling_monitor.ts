/**
 * Looks after siblings: workers that share the state folder, each known by its file there (result_journal.ts). A few times a second
 * the process of each is looked up in /proc; when it is gone its journal is settled (journal_recovery.ts), at the start as well.
 *
 * No message takes part: none can be lost, nobody has to be asked, and it does not matter who leads or whether anyone
 * does. Seeing a sibling alive costs one small file of /proc. Both must see the same pids, which the host in the file's
 * name tells: one in another container, namespace or machine is never judged.
 */
import { loopFailed } from "../platform/facts.ts";
import { every, monotonicMs } from "../platform/timers.ts";
import { isGone } from "../sandbox/process_table.ts";
import { isUnreachable } from "../postgres/connection.ts";
import { type JournalRecoverer, recoverJournal, type Settled } from "./results/journal_recovery.ts";
import { type Identity, identityIn, journalsFolder } from "./results/result_journal.ts";

const LOOK_MS = 250;
/** While nobody is known whose end would be seen: one who comes is known a second later. */
const ALONE_MS = 1_000;
/** After something could not be proven gone, and after the database could not be asked. */
const TRY_AGAIN_MS = 2_000;
const ASK_AGAIN_MS = 500;

/** Until stopped; what is under way then is finished first. */
export async function monitorSiblings(
  recoverer: Omit<JournalRecoverer, "told">,
  me: Identity,
  stop: AbortSignal,
): Promise<void> {
  const told = new Set<string>();
  const under_way = new Map<string, Promise<void>>();
  const not_before_ms = new Map<string, number>();
  let of_others: Set<string> | undefined;
  const look = () => {
    let watched = false;
    const estates = estatesIn(recoverer.state_dir);
    of_others ??= new Set([...estates].filter(([, of]) => !sharesPids(of, me)).map(([name]) => name));
    for (const [name, of] of estates) {
      const not_before = not_before_ms.get(name) ?? 0;
      const may_end = sharesPids(of, me) || of_others.has(name);
      if (of.worker_id === me.worker_id || !may_end || not_before === Infinity) continue;
      watched = true;
      if (under_way.has(name) || monotonicMs() < not_before) continue;
      const proven = isProvenGone(of, me);
      if (!proven && !of_others.has(name)) continue;
      const settling = settle({ ...recoverer, told }, of, proven).then((how) => {
        const once = how === "not ours" || (how === "not yet" && !proven);
        const wait_ms = once ? Infinity : how === undefined ? ASK_AGAIN_MS : TRY_AGAIN_MS;
        not_before_ms.set(name, monotonicMs() + wait_ms);
        under_way.delete(name);
      });
      under_way.set(name, settling);
    }
    for (const name of not_before_ms.keys()) if (!estates.has(name)) not_before_ms.delete(name);
    return watched ? LOOK_MS : ALONE_MS;
  };
  await every(LOOK_MS, () => Promise.resolve(look()), { name: "vigil", stop });
  await Promise.all(under_way.values());
}

/** A former life of this very process, under another id, is over as well: its bodies were proven gone before this one began. */
function isProvenGone(of: Identity, me: Identity): boolean {
  if (!sharesPids(of, me)) return false;
  return isGone(of.pid, of.process_started) || (of.pid === me.pid && of.process_started === me.process_started);
}

function sharesPids(of: Identity, me: Identity): boolean {
  return me.host !== "" && of.host === me.host;
}

/** Undefined: Postgres is away, or something went wrong that a later try may not meet. */
async function settle(recoverer: JournalRecoverer, of: Identity, proven: boolean): Promise<Settled | undefined> {
  try {
    return await recoverJournal(recoverer, of, proven);
  } catch (error) {
    if (isUnreachable(error)) return;
    loopFailed(`estate of ${of.worker_id}`, error);
  }
}

function estatesIn(state_dir: string): Map<string, Identity> {
  const found = new Map<string, Identity>();
  try {
    for (const { name, isFile } of Deno.readDirSync(journalsFolder(state_dir))) {
      const identity = isFile ? identityIn(name) : undefined;
      if (identity) found.set(name, identity);
    }
  } catch {
    // there is none, or it may not be read: then nobody is known to be a sibling
  }
  return found;
}
