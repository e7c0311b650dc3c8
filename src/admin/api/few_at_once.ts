/** What takes the server's time and not Postgres': few at once of one caller, so that nobody keeps the others waiting. */
import { ApiProblem } from "./problem.ts";

const MOST_OF_ONE = 2;

export class FewAtOnce {
  readonly #under_way = new Map<string, number>();

  /** @throws Problem */
  async run<T>(caller: string, work: () => Promise<T>): Promise<T> {
    const before = this.#under_way.get(caller) ?? 0;
    if (before >= MOST_OF_ONE) {
      throw new ApiProblem(
        "too_many",
        `Cannot compute more for ${caller} now: ${before} of its requests are under way`,
        {
          fix: "ask for one after another",
        },
      );
    }
    this.#under_way.set(caller, before + 1);
    try {
      return await work();
    } finally {
      const left = (this.#under_way.get(caller) ?? 1) - 1;
      if (left > 0) this.#under_way.set(caller, left);
      else this.#under_way.delete(caller);
    }
  }
}
