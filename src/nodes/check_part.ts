/** What a check of a node looked at: kept with the node (node_health.ts), and told by what waits for it (wait_reason.ts). */

/** One thing that was looked at. */
export interface CheckPart {
  name: string;
  ok: boolean;
  /** What was measured, for people: "0.42 per core". */
  value: string;
  message: string;
  /** The numbers that `value` and `message` are made of, for whoever says it in other words. */
  figures?: CheckFigures;
  ms: number;
}

export interface CheckFigures {
  free_mb?: number;
  /** At least so much must be free. */
  least_mb?: number;
  load_percent?: number;
  cores?: number;
  /** At most so much is allowed. */
  most_percent?: number;
  bodies?: number;
  /** What the machine lacks for bodies to begin, in the system's words. */
  lack?: string;
  /** Of the connection: how many workers did not answer; 0: there is none. */
  silent?: number;
  /** Where peers are told to find a worker, though only its own machine can. */
  local?: string;
}
