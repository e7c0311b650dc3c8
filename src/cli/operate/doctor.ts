/** `doctor`: what is missing, and how to mend it. Exits 1 when something is. */
import { examine } from "../../ops/doctor.ts";
import type { JsonOption } from "../operator.ts";
import { CommandError, EXIT, printJson, say } from "../../app/output.ts";

export async function doctorCommand(options: JsonOption): Promise<void> {
  const findings = await examine();
  if (options.json) printJson(findings);
  else {
    const signs = { ok: "ok      ", warning: "warning ", problem: "PROBLEM " };
    for (const { check, state, detail, fix } of findings) {
      say(`${signs[state]} ${check.padEnd(12)} ${detail}${fix ? `\n${" ".repeat(22)}fix: ${fix}` : ""}`);
    }
  }
  if (findings.some((finding) => finding.state === "problem")) throw new CommandError("", EXIT.failed);
}
