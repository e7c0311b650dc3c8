/** The issues that a schema has with a value -> complaints, in our own words. */
import { z } from "zod";
import { isRecord, shown, wordLike } from "../platform/shown.ts";
import type { Complaint, Says, Wrong, WrongParams } from "./complaint.ts";
import { chosenOption, nodeOf, type OptionNode } from "./option_node.ts";

type Path = readonly PropertyKey[];
type Issue = z.core.$ZodIssue;

/** The issues of `schema` with `input`, each told once; `at` goes before each option's name, e.g. "schedule[0].". */
export function complaintsOf(schema: z.ZodType, input: unknown, issues: readonly Issue[], at = ""): Complaint[] {
  const told = new Map<string, Complaint>();
  for (const complaint of issues.flatMap((issue) => new Teller(schema, input, at).tell(issue, []))) {
    const key = `${complaint.key} ${complaint.reason}`;
    if (!told.has(key)) told.set(key, complaint);
  }
  return [...told.values()];
}

class Teller {
  constructor(readonly schema: z.ZodType, readonly input: unknown, readonly at: string) {}

  tell(issue: Issue, above: Path): Complaint[] {
    const path = [...above, ...issue.path];
    const { node, value, path: told } = this.#find(path);
    const params = issue.code === "custom" ? issue.params as WrongParams | undefined : undefined;
    if (params?.reason !== undefined) return [this.#complaint(path, valueAt(this.input, path), params)];
    if (node.facts.sentence !== undefined) {
      return [{ key: this.#name(path), value, reason: issue.message, fix: node.facts.sentence }];
    }
    if (issue.code === "unrecognized_keys" && told.length === path.length) {
      const { names } = node.chosen(value);
      return issue.keys.map((key) => this.#complaint([...path, key], undefined, unknownKey(key, names)));
    }
    if (issue.code === "invalid_union" && node.schema instanceof z.ZodUnion && Object(value) === value) {
      const inner = issue.errors[chosenOption(node.schema, value)] ?? [];
      if (inner.length > 0 && told.length === path.length) return inner.flatMap((one) => this.tell(one, path));
    }
    const leaf = node.chosen(value);
    return [this.#complaint(told, value, leaf.facts.wrong?.(value) ?? wrongKind(leaf, value))];
  }

  /** The option that an issue is about: the innermost on its path, or the one around it that is only told as a whole. */
  #find(path: Path): { node: OptionNode; value: unknown; path: Path } {
    let [node, value] = [nodeOf(this.schema, this.input), this.input];
    for (const [place, step] of path.entries()) {
      if (node.facts.whole) return { node, value, path: path.slice(0, place) };
      const within = node.at(step);
      if (!within) break;
      const { sentence } = node.facts;
      value = isRecord(value) || Array.isArray(value) ? (value as Record<PropertyKey, unknown>)[step] : undefined;
      node = nodeOf(within, value);
      if (sentence !== undefined) node = { ...node, facts: { ...node.facts, sentence } };
    }
    return { node, value, path };
  }

  #name(path: Path): string {
    const steps = path.map((step) => typeof step === "number" ? `[${step}]` : `.${String(step)}`).join("");
    return `${this.at.replace(/\.$/, "")}${steps}`.replace(/^\./, "");
  }

  #complaint(path: Path, value: unknown, wrong: WrongParams | Wrong): Complaint {
    const { reason, fix, says } = wrong;
    const key = this.#name(path);
    const between = "punctuation" in wrong ? wrong.punctuation ?? " " : " ";
    return {
      key,
      value: wrong.value ?? value,
      reason: `${key}${between}${reason}`.trim(),
      fix,
      ...(says ? { says } : {}),
    };
  }
}

function unknownKey(key: string, words: readonly string[]): Wrong {
  const like = wordLike(key, words);
  return {
    reason: "is no option that is known here",
    fix: like ? `did you mean ${like}?` : `remove it; known are ${words.join(", ")}`,
    says: { code: "unknown", words },
  };
}

/** By the kind of the schema: what it would have taken, and what it found. */
function wrongKind({ schema, facts, fallback, optional }: OptionNode, value: unknown): Wrong {
  if (value === undefined) {
    return { reason: "is missing", fix: facts.missing ?? "give it", says: { code: "missing" } };
  }
  const found = `current value is ${shown(value)}`;
  const or_default = optional ? `, or leave it out${fallback === undefined ? "" : ` for ${shown(fallback)}`}` : "";
  if (schema instanceof z.ZodNumber) {
    const { minValue: least, maxValue: most, isInt: whole } = schema as {
      minValue: number;
      maxValue: number;
      isInt: boolean;
    };
    const range = `${whole ? "a whole number" : "a number"} from ${least} to ${most}`;
    const says: Says = { code: "number", least, most, whole };
    return { reason: `must be ${range}: ${found}`, fix: `give ${range}${or_default}`, says };
  }
  if (schema instanceof z.ZodString) {
    const most = schema.maxLength ?? Infinity;
    return {
      reason: `must be a text of 1 to ${most} characters on one line: ${found}`,
      fix: "shorten it, or leave it out",
      says: { code: "text", most },
    };
  }
  if (schema instanceof z.ZodEnum) {
    const words = schema.options as string[];
    const like = typeof value === "string" ? wordLike(value, words) : undefined;
    const meant = facts.meant?.(value);
    if (meant) {
      const reason = `must be one of ${words.map(shown).join(", ")}, or an object, not ${shown(value)}`;
      return { reason, fix: `write it as ${literal(meant)}` };
    }
    return {
      reason: `must be one of ${words.map(shown).join(", ")}: ${found}`,
      fix: like ? `did you mean "${like}"?` : `use one of them${or_default}`,
      says: { code: "choice", words },
    };
  }
  if (schema instanceof z.ZodBoolean) {
    return { reason: `must be true or false: ${found}`, fix: "write true", says: { code: "truth" } };
  }
  const meant = facts.meant?.(value);
  return {
    reason: `must be an object, not ${shown(value)}`,
    fix: `write it as ${meant ? literal(meant) : "{ ... }"}`,
    says: { code: "object" },
  };
}

/** As it stands in a job file: { max: 3 }. */
function literal(object: Record<string, unknown>): string {
  return `{ ${Object.entries(object).map(([key, value]) => `${key}: ${shown(value)}`).join(", ")} }`;
}

function valueAt(input: unknown, path: Path): unknown {
  return path.reduce<unknown>((value, step) => (value as Record<PropertyKey, unknown> | undefined)?.[step], input);
}
