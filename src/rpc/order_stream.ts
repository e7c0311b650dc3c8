/**
 * Orders to one worker, over one stream that stays open: a call of its own costs each side about a millisecond of headers, filters and
 * timers, a message on a stream a third of it. Answers come in any order, each under the number of its question.
 *
 * A stream that breaks answers all that is under way with its failure; what of that was carried out is not known, as with any call.
 */
import type { Client, ClientDuplexStream, MethodDefinition, ServiceError } from "@grpc/grpc-js";
import { Metadata, status } from "@grpc/grpc-js";
import { after } from "../platform/timers.ts";
import { type CallResult, type Failure, failureFrom, read } from "./call_result.ts";
import {
  type OrdersRequest,
  type OrdersResponse,
  type StartJobsRequest,
  type StartJobsResponse,
  workerService,
} from "./messages.ts";
import { stored } from "../locale/message.ts";

export class OrderStream {
  readonly #stream: ClientDuplexStream<OrdersRequest, OrdersResponse>;
  readonly #waiting = new Map<number, (answer: CallResult<StartJobsResponse>) => void>();
  #number = 0;
  #over: Failure | undefined;

  /** `onEnd` is called once, when it can be used no more. */
  constructor(client: Client, onEnd: () => void) {
    const method = workerService.Orders as MethodDefinition<OrdersRequest, OrdersResponse>;
    this.#stream = client.makeBidiStreamRequest(
      method.path,
      method.requestSerialize,
      method.responseDeserialize,
      new Metadata(),
      {},
    );
    const end = (why: Failure) => {
      if (this.#over) return;
      this.#over = why;
      onEnd();
      for (const answer of this.#waiting.values()) answer(why);
    };
    this.#stream.on("data", (message: unknown) => this.#hear(message));
    this.#stream.on("error", (error: ServiceError) => end(failureFrom(error)));
    this.#stream.on("end", () => end({ ok: false, code: "UNAVAILABLE", message: "the peer ended the stream" }));
  }

  ask(request: StartJobsRequest, deadline_ms: number): Promise<CallResult<StartJobsResponse>> {
    return new Promise((resolve) => {
      if (this.#over) return resolve(this.#over);
      const number = ++this.#number;
      const answer = (answer: CallResult<StartJobsResponse>) => {
        cancel();
        this.#waiting.delete(number);
        resolve(answer);
      };
      const message = stored("rpc.no_answer", { ms: deadline_ms });
      const cancel = after(deadline_ms, () => answer({ ok: false, code: "DEADLINE_EXCEEDED", message }));
      this.#waiting.set(number, answer);
      this.#stream.write({ number, start: request });
    });
  }

  cancel(): void {
    this.#stream.cancel();
  }

  #hear(message: unknown): void {
    const { number, refused } = message as OrdersResponse;
    const answer = this.#waiting.get(number);
    if (!answer) return; // its deadline has passed
    if (refused) return answer(failureFrom({ ...refused, details: refused.message }));
    const heard = read<OrdersResponse>(message);
    if (!heard.ok) answer(heard);
    else if (heard.value.started) answer({ ok: true, value: heard.value.started });
    else answer(failureFrom({ code: status.INTERNAL, details: "the answer is empty", message: "" }));
  }
}
