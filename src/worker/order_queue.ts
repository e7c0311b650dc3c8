/** Orders that wait for a slot: by priority, lower first, and those of one priority in the order in which they came. */
import { ChurnMap } from "../platform/churn_map.ts";
import { attemptKey, type AttemptRef } from "../runs/states.ts";

interface Prior extends AttemptRef {
  priority: number;
}

interface Waiting<Order> {
  order: Order;
  until_ms: number;
}

export class OrderQueue<Order extends Prior> {
  /** Few at a time. */
  readonly #lines = new Map<number, ChurnMap<string, Waiting<Order>>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Whatever its priority was then. */
  has(order: AttemptRef): boolean {
    const key = attemptKey(order);
    return this.#lines.values().some((line) => line.has(key));
  }

  /** Until then it is not overdue: no sooner than any of the same priority that came before. */
  add(order: Order, until_ms: number): void {
    let line = this.#lines.get(order.priority);
    if (!line) this.#lines.set(order.priority, line = new ChurnMap());
    line.set(attemptKey(order), { order, until_ms });
    this.#size++;
  }

  remove(order: Prior): void {
    const line = this.#lines.get(order.priority);
    if (!line?.delete(attemptKey(order))) return;
    this.#size--;
    if (line.size === 0) this.#lines.delete(order.priority);
  }

  /** Who is next. */
  get first(): Order | undefined {
    if (this.#size === 0) return undefined;
    const next = Math.min(...this.#lines.keys());
    return firstOf(this.#lines.get(next) as ChurnMap<string, Waiting<Order>>).order;
  }

  /** When the first of them is overdue; Infinity: there is none. */
  get until_ms(): number {
    return Math.min(...this.#lines.values().map((line) => firstOf(line).until_ms));
  }

  /** Takes those out that are overdue by then; without a time all. */
  take(now_ms = Infinity): Order[] {
    const taken: Order[] = [];
    for (const line of this.#lines.values()) {
      for (const { order, until_ms } of line.values()) {
        if (until_ms > now_ms) break;
        taken.push(order);
      }
    }
    for (const order of taken) this.remove(order);
    return taken;
  }
}

function firstOf<Value>(line: ChurnMap<string, Value>): Value {
  for (const first of line.values()) return first;
  throw new Error("an empty line was kept");
}
